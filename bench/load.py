"""Live questions have three processes: the broker, who answers, and who asks. This lets the third loose on the second."""

from __future__ import annotations

import asyncio

from msgspec import Struct
from msgspec.structs import asdict

from bench.process import a_child, figures_of
from bench.question import Broken, Measured, sized


class Load(Struct, frozen=True):
    """`warm` requests that are not measured, then `count` that are; `in_flight` of them unanswered at once."""

    warm: int
    count: int
    in_flight: int

    def at(self, scale: float) -> Load:
        return Load(sized(self.warm, scale), sized(self.count, scale), self.in_flight)

    @property
    def all(self) -> int:
        return self.warm + self.count


async def answered(load: Load, side: str, function: str, *, url: str, asked_on: str, **told: str) -> Measured:
    """Start a side, ask it: what both measured, latencies as the asker saw them. Broken: a wrong answer, or none."""
    async with a_child(f"bench.sides.{side}", function, url=url, first=load.warm, last=load.all, **told) as server:
        await server.ready()
        asking = figures_of("bench.sides.asker", "ask", url=url, subject=asked_on, **asdict(load))
        asked, served = await asyncio.gather(asking, server.figures())
    if asked["wrong"]:
        raise Broken(f"{asked['wrong']:.0f} of {load.count} answers of {side} were wrong")
    return {**served, **asked}
