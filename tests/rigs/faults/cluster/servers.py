"""Three nats-servers as one cluster, with proxies between them, and what the system account tells
about them.
"""

import asyncio
import contextlib
import json
from collections.abc import Iterable
from typing import Any

import nats.errors
from nats.aio.client import Client

from tests.rigs.faults.cluster.routes import ADVERTISED, Routes
from tests.rigs.faults.stage import WRITE_DEADLINE_S, connect
from tests.support.broker import Broker
from tests.support.ports import free_ports

NAME = "faults"
SIZE = 3
ANSWER_S = 2.0
SYSTEM = {"user": "sys", "password": "sys"}
LINES = (
    'accounts { $SYS { users: [{ user: "sys", password: "sys" }] } }',
    f'write_deadline: "{WRITE_DEADLINE_S}s"',
    'lame_duck_duration: "30s"',  # the shortest that the server takes
    'lame_duck_grace_period: "1s"',
)


class Servers:
    """`broken`: the numbers of those that a fault has touched, until all copies are current again."""

    def __init__(self) -> None:
        self.brokers: list[Broker] = []
        self.broken: set[int] = set()
        self.routes = Routes(free_ports(SIZE))
        self._system: list[Client] = []

    async def start(self) -> None:
        await self.routes.start()
        self.brokers = [self._broker(number) for number in range(SIZE)]
        await asyncio.gather(*(asyncio.to_thread(broker.start) for broker in self.brokers))
        self._system = [await connect(broker.url, **SYSTEM) for broker in self.brokers]

    @property
    def url(self) -> str:
        return ",".join(broker.url for broker in self.brokers)

    @property
    def healthy(self) -> list[int]:
        """Without a fault; all of them if a fault has touched all."""
        return [number for number in range(SIZE) if number not in self.broken] or list(range(SIZE))

    @property
    def system(self) -> list[Client]:
        """A connection to the system account of each server."""
        return self._system

    async def remove(self) -> None:
        for client in self._system:
            await client.close()
        for broker in self.brokers:
            broker.remove()
        await self.routes.close()

    def kill(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.broken.add(number)
            self.brokers[number].kill()

    async def start_again(self, numbers: Iterable[int]) -> None:
        await asyncio.gather(*(asyncio.to_thread(self.brokers[number].start) for number in numbers))

    async def find_meta_leader(self) -> int | None:
        """The server that leads the cluster's own decisions, as a healthy one says; None while
        there is none.
        """
        for number in self.healthy:
            if (leader := (await self._read_meta(number)).get("leader")) is not None:
                return number_of(str(leader)) if leader else None
        return None

    async def is_meta_current(self) -> bool:
        """Whether the cluster has a leader, and both others follow it."""
        leader = await self.find_meta_leader()
        group = await self._read_meta(leader) if leader is not None else {}
        return len(group.get("replicas") or []) == SIZE - 1 and is_current(group)

    async def step_down_meta(self) -> None:
        """The leader of the cluster's own decisions gives its place away, if there is one."""
        with contextlib.suppress(nats.errors.Error):
            await self._system[self.healthy[0]].request(
                "$JS.API.META.LEADER.STEPDOWN", b"", timeout=ANSWER_S
            )

    async def _read_meta(self, number: int) -> dict[str, Any]:
        """What this server knows of the group of the cluster; nothing if it does not answer."""
        client = self._system[number]
        with contextlib.suppress(nats.errors.Error):
            answer = await client.request(
                f"$SYS.REQ.SERVER.{client._server_info['server_id']}.JSZ", b"", timeout=ANSWER_S
            )
            return dict(json.loads(answer.data)["data"].get("meta_cluster") or {})
        return {}

    def _broker(self, number: int) -> Broker:
        own = (
            f'name: {NAME}, listen: "127.0.0.1:{self.routes.port_of(number)}", advertise: '
            f'"{ADVERTISED}", no_advertise: true'
        )
        routes = json.dumps(self.routes.urls_of(number))
        return Broker(
            f"server_name: {name_of(number)}", f"cluster {{ {own}, routes: {routes} }}", *LINES
        )


def name_of(number: int) -> str:
    return f"{NAME}-{number}"


def number_of(name: str) -> int:
    return int(name.removeprefix(f"{NAME}-"))


def is_current(group: dict[str, Any]) -> bool:
    """Whether every copy of a group follows its leader."""
    return bool(group.get("leader")) and all(
        one["current"] and not one.get("offline") for one in group.get("replicas") or []
    )
