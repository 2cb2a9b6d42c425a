"""Routers, the worker and the server are killed meanwhile, in an order that the seed gives, until
it is told to stop.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from random import Random

from tests.rigs.money.stage import Town

ROUTER, WORKER, SERVER = "router", "worker", "server"
ROUND = (ROUTER, ROUTER, WORKER, SERVER)  # each once a round, in another order
AWAY_S = 0.3  # the server, between its death and its start
PAUSE_S = (2.0, 4.0)  # between two kills


class Killing:
    """`run` it as a task; `stop` ends it between two kills.

    Where a number of kills is asked for, all of them come, however quick the rest is.
    """

    def __init__(
        self,
        town: Town,
        dice: Random,
        pause_s: tuple[float, float],
        order: Sequence[str],
        most: int | None,
    ) -> None:
        self._town = town
        self._dice = dice
        self._pause_s = pause_s
        self._order = order
        self._most = most
        self._round: list[str] = []
        self._stopped = asyncio.Event()
        self.counts: Counter[str] = Counter()

    async def run(self) -> None:
        while self._most is None or self.counts.total() < self._most:
            try:
                async with asyncio.timeout(self._dice.uniform(*self._pause_s)):
                    await self._stopped.wait()
                if self._most is None:
                    return
            except TimeoutError:
                pass
            self._round = self._round or self._dice.sample(self._order, len(self._order))
            await self._kill(self._round.pop())

    def stop(self) -> None:
        self._stopped.set()

    async def _kill(self, what: str) -> None:
        self.counts[what] += 1
        if what == SERVER:
            await asyncio.to_thread(self._town.broker.kill)
            await asyncio.sleep(AWAY_S)
            await asyncio.to_thread(self._town.broker.start)
            return
        child = self._dice.choice(self._town.routers) if what == ROUTER else self._town.worker
        if child.is_running:
            child.kill()
        child.spawn()
