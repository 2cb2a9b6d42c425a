"""The stage of `tests.rigs.faults`, shortly: a router, a worker, and servers on disks that can be
cut.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import nats.errors
from nats.js.errors import APIError

from tests.rigs.faults.clients import Clients
from tests.rigs.faults.stage import Cast, Stage, connect
from tests.rigs.powercut.rows import Row
from tests.rigs.powercut.server import DiskBroker
from tests.support.broker import Broker
from tests.support.cluster import Cluster, started_cluster, wait_for_cluster


def cast_of(row: Row) -> Cast:
    return Cast(
        routers=1,
        workers=1,
        extensions=0,
        is_proxied=False,
        replicas=row.servers,
        connect_timeout_ms=30_000,
    )


class PowerStage(Stage):
    """`clients`: a connection to each server, of which the one with power publishes."""

    clients: Clients

    def __init__(self, row: Row, cast: Cast, home: Path) -> None:
        super().__init__(cast, home)
        self.row = row
        self._servers = ExitStack()
        self._cluster: Cluster | None = None
        self._brokers: list[Broker] = []
        self._without_power: set[int] = set()

    @property
    def url(self) -> str:
        return ",".join(broker.url for broker in self._brokers)

    async def start_servers(self) -> None:
        kind = partial(DiskBroker, sync_always=self.row.is_synced, fsync_us=self.row.fsync_us)
        if self.row.servers == 1:
            self._brokers = [kind()]
            await asyncio.to_thread(self._servers.enter_context, self._brokers[0])
        else:
            starting = started_cluster(make=kind)
            self._cluster = await asyncio.to_thread(self._servers.enter_context, starting)
            self._brokers = self._cluster.servers
            await wait_for_cluster(self._cluster)
        self.clients = Clients(
            [await connect(broker.url) for broker in self._brokers], self._has_power
        )

    async def end_servers(self) -> None:
        if hasattr(self, "clients"):
            with contextlib.suppress(OSError):  # a server has just gone
                await self.clients.close()
        await asyncio.to_thread(self._servers.close)

    async def choose(self, turn: int) -> list[int]:
        """The servers whose power fails now. If one of several, the leader of one stream after the
        other.
        """
        if self.row.felt_by == self.row.servers:
            return list(range(self.row.servers))
        assert self._cluster is not None
        streams = self._streams
        info = await self.clients.current.jsm().stream_info(streams[turn % len(streams)])
        assert info.cluster is not None
        assert info.cluster.leader is not None
        return [self._brokers.index(self._cluster.find(info.cluster.leader))]

    async def end_life(self, numbers: Iterable[int]) -> None:
        """Their machines lose power; in the control the servers are killed alone."""
        self._without_power.update(numbers)
        end = DiskBroker.cut if self.row.is_cut else Broker.kill
        await asyncio.gather(*(asyncio.to_thread(end, self._broker(n)) for n in numbers))

    async def start_again(self, numbers: Iterable[int]) -> None:
        await asyncio.gather(*(asyncio.to_thread(self._broker(n).start) for n in numbers))
        self._without_power.clear()

    async def is_current(self) -> bool:
        """Whether every copy of a stream follows its leader."""
        jsm = self.clients.current.jsm()
        with contextlib.suppress(nats.errors.Error, APIError):
            groups = [(await jsm.stream_info(name)).cluster for name in self._streams]
            return all(
                bool(group.leader) and all(copy.current for copy in group.replicas or [])
                for group in groups
                if group is not None and self._cluster is not None
            )
        return False

    @property
    def _streams(self) -> tuple[str, ...]:
        streams = self.settings.streams
        return (
            streams.decide.name,
            streams.assignments.name,
            streams.results.name,
            streams.usage.name,
        )

    def _broker(self, number: int) -> DiskBroker:
        broker = self._brokers[number]
        assert isinstance(broker, DiskBroker)
        return broker

    def _has_power(self, number: int) -> bool:
        return number not in self._without_power
