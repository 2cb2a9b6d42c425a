"""One chain: what it sends, what comes of it, and the steady load of it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import nats.errors

from router.core.errors import Transient
from tests.rigs.faults.child import Child
from tests.rigs.faults.clients import Clients
from tests.rigs.faults.cluster.groups import Group

TRY_AGAIN_S = 0.3
SEND_WITHIN_S = 10.0


class Effect(NamedTuple):
    """What came of one message. `at`: by the wall clock."""

    of: str
    at: float


class Surroundings(Protocol):
    """What a chain needs of the stage."""

    clients: Clients
    home: Path

    @property
    def url(self) -> str:
        """Every server, past the proxies."""

    async def add_child(
        self, name: str, command: tuple[str, ...], announces: str, **settings: object
    ) -> Child:
        """A process with a proxy to each server; it is not started."""


class Chain(Protocol):
    """A way of messages through some processes."""

    @property
    def name(self) -> str: ...

    @property
    def groups(self) -> tuple[Group, ...]:
        """The streams and durables that its messages pass."""

    async def start(self, stage: Surroundings) -> list[Child]:
        """Make what its processes need; returns them in the order in which they are to be started."""

    async def open(self) -> None:
        """The processes are ready, and so is the chain to send."""

    async def send(self, number: int) -> str:
        """Store message `number`; returns its id. Called again until it succeeds."""

    async def count(self) -> int:
        """How many last effects there are."""

    async def read(self) -> Mapping[str, Sequence[Effect]]:
        """Every effect, by the name of its stage."""

    async def close(self) -> None: ...


class ChainLoad:
    """Messages at a steady rate. Each is sent again until it is stored."""

    def __init__(self, chain: Chain, rate: float) -> None:
        self.chain = chain
        self._rate = rate
        self._sending: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None
        # by id: when it was first sent, steady seconds; those that are stored
        self.offered: dict[str, float] = {}

    def begin(self) -> None:
        self._task = asyncio.create_task(self._work())

    def end(self) -> None:
        if self._task is not None:
            self._task.cancel()

    @property
    def is_stored(self) -> bool:
        return not self._sending

    async def is_behind(self, within_s: float) -> bool:
        """Whether a message that was sent so long ago has no last effect yet, as far as counting
        tells.
        """
        until = time.monotonic() - within_s
        expected = sum(at <= until for at in list(self.offered.values()))
        return await self.chain.count() < expected

    async def close(self) -> None:
        tasks = [*self._sending, *([self._task] if self._task is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.chain.close()

    async def _work(self) -> None:
        began, number = time.monotonic(), 0
        while True:
            while number < int((time.monotonic() - began) * self._rate):
                number += 1
                task = asyncio.create_task(self._send(number))
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)
            await asyncio.sleep(0.02)

    async def _send(self, number: int) -> None:
        first = time.monotonic()
        while True:
            with contextlib.suppress(nats.errors.Error, Transient, TimeoutError):
                async with asyncio.timeout(SEND_WITHIN_S):
                    self.offered[await self.chain.send(number)] = first
                return
            await asyncio.sleep(TRY_AGAIN_S)
