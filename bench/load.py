"""The frame of live questions: a broker, a side that answers, and a process that asks.

    LOAD = Load(warm=4_000, count=40_000, in_flight=256) sides=(LOAD.side("router",
    "router.decide"), LOAD.side("bare nats-py", "bare.live", decide_subscription))

A side is a function of a module of `bench.sides`, and runs in a process of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

from msgspec import Struct
from msgspec.structs import asdict

from bench.broker import a_broker, decide_subscription, nothing_is_left
from bench.family import servers_cpu_s
from bench.process import a_child, figures_of
from bench.question import Broken, Measured, Side, sized

Places = Callable[[str], Mapping[str, str]]  # the broker's URL -> what a side must know beside it


def knows_all(_: str) -> Mapping[str, str]:
    """The side reads its settings."""
    return {}


class Load(Struct, frozen=True):
    """`warm` requests that are not measured, then `count` that are; `in_flight` of them unanswered
    at once.
    """

    warm: int
    count: int
    in_flight: int

    def at(self, scale: float) -> Load:
        return Load(sized(self.warm, scale), sized(self.count, scale), self.in_flight)

    @property
    def all(self) -> int:
        return self.warm + self.count

    def side(
        self,
        name: str,
        function: str,
        places: Places = knows_all,
        *,
        subject: str = "",
        **more: str,
    ) -> Side:
        """`subject`: where it is asked, unless requests are stored there and decided; `more`:
        arguments of the side's own.
        """
        return Side(
            name,
            partial(self.measure, function=function, places=places, subject=subject, more=more),
        )

    async def measure(
        self, scale: float, *, function: str, places: Places, subject: str, more: Mapping[str, str]
    ) -> Measured:
        load = self.at(scale)
        async with a_broker() as url:
            figures = await _ask(
                load,
                function,
                url,
                subject or decide_subscription(url)["subject"],
                {**places(url), **more},
            )
            if not subject:
                await nothing_is_left(url, load.all)
        return figures


async def _ask(
    load: Load, function: str, url: str, subject: str, arguments: Mapping[str, str]
) -> Measured:
    """Start a side, ask it: what both measured, latencies as the asker saw them. Broken: a wrong
    answer, or none.
    """
    module, _, name = function.rpartition(".")
    async with a_child(
        f"bench.sides.{module}", name, url=url, first=load.warm, last=load.all, **arguments
    ) as server:
        await server.ready()
        before = servers_cpu_s()
        asking = figures_of("bench.sides.asker", "ask", url=url, subject=subject, **asdict(load))
        asked, served = await asyncio.gather(asking, server.figures())
        servers_us = (servers_cpu_s() - before) / load.all * 1e6
    if asked["wrong"]:
        raise Broken(f"{asked['wrong']:.0f} of {load.count} answers of {function} were wrong")
    return {"servers_cpu_us": servers_us, **served, **asked}
