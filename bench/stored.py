"""The frame of questions about stored work: a broker, messages that are stored first, a side that
works them off, a check that all is done.

    WORK = StoredWork("store.fill", 100_000) sides=(WORK.side("router", "router.decide",
    from_first), WORK.side("bare nats-py", "bare.backlog", as_subscriber))

A side is a function of a module of `bench.sides`, and runs in a process of its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct

from bench.broker import NOTHING, Given, a_broker, decide_subscription, nothing_is_left
from bench.family import servers_cpu_s
from bench.process import PATIENCE_S, figures_of
from bench.question import Measured, Side, sized

Arguments = Mapping[str, Any]
# the broker's URL, how many messages -> which of them the side measures, and where they are
Stretch = Callable[[str, int], Arguments]
Check = Callable[[str, int], Awaitable[None]]  # raises Broken unless so many messages are done


def from_first(_: str, count: int) -> Arguments:
    return {"first": 1, "last": count}


def from_tenth(_: str, count: int) -> Arguments:
    """The side has started, and has its caches, when a tenth is done."""
    return {"first": count // 10, "last": count}


def as_subscriber(url: str, count: int) -> Arguments:
    """For a yardstick, which knows nothing of settings."""
    return {"last": count, **decide_subscription(url)}


def all_of_them(_: str, count: int) -> Arguments:
    return {"count": count}


async def check_nothing(_url: str, _count: int) -> None:
    """The side itself has looked."""


class StoredWork(Struct, frozen=True):
    """`fill`: the function that stores `full` messages (at scale 1); `given`: settings of the
    broker's topology.
    """

    fill: str
    full: int
    check: Check = nothing_is_left
    given: Given = NOTHING
    least: int = 100
    patience_s: float = PATIENCE_S
    has_store: bool = False  # the side is given a `store`, a file of its own

    def side(
        self,
        name: str,
        function: str,
        stretch: Stretch = from_tenth,
        *,
        full: int = 0,
        fill: Arguments = NOTHING,
        **more: object,
    ) -> Side:
        """`full`: another number of messages; `fill`: more arguments of the function that stores
        them, `more`: of the side's own.
        """
        return Side(
            name,
            partial(
                self.measure,
                function=function,
                stretch=stretch,
                full=full or self.full,
                fill=fill,
                more=more,
            ),
        )

    async def measure(
        self,
        scale: float,
        *,
        function: str,
        stretch: Stretch,
        full: int,
        fill: Arguments,
        more: Arguments,
    ) -> Measured:
        count = sized(full, scale, self.least)
        async with a_broker(self.given) as url:
            # All of it beforehand: a process that stores beside the side, on two cores, would be
            # what is measured.
            await self._run(self.fill, {"url": url, "count": count, **fill})
            with tempfile.TemporaryDirectory(prefix="router-bench-") as home:
                before = servers_cpu_s()
                own = {"store": f"{home}/a.db"} if self.has_store else NOTHING
                figures = await self._run(
                    function, {"url": url, **stretch(url, count), **own, **more}
                )
                servers_us = (servers_cpu_s() - before) / count * 1e6
            await self.check(url, count)
        return {"servers_cpu_us": servers_us, **figures}

    async def _run(self, function: str, arguments: Arguments) -> Measured:
        module, _, name = function.rpartition(".")
        return await figures_of(f"bench.sides.{module}", name, self.patience_s, **arguments)
