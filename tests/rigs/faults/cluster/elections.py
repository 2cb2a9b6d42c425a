"""When a group got a new leader, as the servers' own advisories tell it: the part of an outage that
is not the router's.
"""

import contextlib
import json
import time
from collections.abc import Collection, Sequence

from msgspec import Struct
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.rigs.faults.clients import Clients
from tests.rigs.faults.cluster.groups import META, Group

SUBJECTS = (
    "$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED.>",
    "$JS.EVENT.ADVISORY.CONSUMER.LEADER_ELECTED.>",
    "$JS.EVENT.ADVISORY.DOMAIN.LEADER_ELECTED",
)


class Election(Struct, frozen=True):
    """`at`: by the steady clock of the suite."""

    group: str
    at: float


class Elections:
    """Of the groups that a run names; consumers that come and go do not count."""

    def __init__(self, groups: Collection[Group]) -> None:
        self._groups = groups
        self.each: list[Election] = []
        self._ids: set[str] = set()  # the same advisory comes through every connection

    async def watch(self, system: Sequence[Client]) -> None:
        clients = Clients(system)
        for subject in SUBJECTS:
            await clients.subscribe(subject, self._on_advisory)

    async def _on_advisory(self, _: int, message: Msg) -> None:
        with contextlib.suppress(ValueError):
            self._add(json.loads(message.data), time.monotonic())

    def _add(self, advisory: dict[str, str], now: float) -> None:
        group = Group(advisory.get("stream", META), advisory.get("consumer", ""))
        if advisory["id"] not in self._ids and group in self._groups:
            self._ids.add(advisory["id"])
            self.each.append(Election(group.name, now))
