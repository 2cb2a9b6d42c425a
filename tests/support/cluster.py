"""A cluster of three real nats-servers on this machine, each with a store of its own."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import nats
from nats.errors import Error as NatsError
from nats.js.errors import APIError

from tests.support.broker import Broker
from tests.support.ports import free_ports
from tests.support.waiting import slack, until

SIZE = 3


class Cluster:
    """Servers of one JetStream cluster. `url` names all of them."""

    def __init__(self, name: str, servers: list[Broker]) -> None:
        self._name = name
        self.servers = servers

    def find(self, server_name: str) -> Broker:
        """The server that a stream's info calls so."""
        return self.servers[int(server_name.removeprefix(f"{self._name}-"))]

    @property
    def url(self) -> str:
        return ",".join(server.url for server in self.servers)

    def stop(self) -> None:
        for server in self.servers:
            server.stop()

    def start(self) -> None:
        for server in self.servers:
            server.start()

    async def is_ready(self) -> bool:
        """Whether it has a leader, and every server is current."""
        with suppress(NatsError, OSError, APIError):
            async with await nats.connect(
                [server.url for server in self.servers], connect_timeout=slack()
            ) as client:
                await client.jetstream().account_info()
                return True
        return False


@contextmanager
def started_cluster(
    running: int = SIZE,
    store_limit: int | None = None,
    lines: Sequence[str] = (),
    domain: str | None = None,
    *,
    sync_always: bool = False,
    max_buffered: int | None = None,
    make: Callable[..., Broker] = Broker,
) -> Iterator[Cluster]:
    """Three servers that know each other, of which so many run; wait for `is_ready` before the
    first stream.

    `store_limit`: bytes that each of them may store; `lines`: of each one's configuration;
    `domain`: JetStream's, of all. `sync_always`: every publish ack waits for the disk;
    `max_buffered`: messages that may wait to be stored, in each stream. `make`: another kind of
    server.
    """
    ports = free_ports(SIZE)
    routes = json.dumps([f"nats://127.0.0.1:{port}" for port in ports])
    name = f"c{random.randrange(10**9)}"
    servers: list[Broker] = []
    try:
        for number, port in enumerate(ports):
            own = f'cluster {{ name: {name}, listen: "127.0.0.1:{port}", routes: {routes} }}'
            servers.append(
                make(
                    f"server_name: {name}-{number}",
                    own,
                    'http: "127.0.0.1:-1"',
                    *lines,
                    store_limit=store_limit,
                    domain=domain,
                    sync_always=sync_always,
                    max_buffered=max_buffered,
                )
            )
        for server in servers[:running]:
            server.start()
        yield Cluster(name, servers)
    finally:
        for server in servers:
            server.remove()


async def wait_for_cluster(cluster: Cluster) -> None:
    await until(cluster.is_ready, within_s=30, what="a leader of the cluster")
