"""How long does an answer take when requests come at a rate, not when the last one is answered?

An open loop at 10, 50 and 80 % of the capacity that the same side has just shown in the same round.
Latencies count from the time that a request was due. What is answered `overloaded`, because the
machine became slower than it was when it showed its capacity, is counted apart. Beside it the same
router while /metrics is read every second, and the bare loop at its own shares.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from msgspec.structs import asdict, replace

from bench.broker import a_broker, decide_subscription, nothing_is_left
from bench.process import a_child, figures_of
from bench.question import Broken, Figure, Measured, Question, Side, at_least, at_most, sized
from bench.sides.pacer import Ramp

SHARES = (10, 50, 80)
# each load takes equally long
RAMP = Ramp(warm=4_000, closed=30_000, opened=60_000, shares=SHARES, in_flight=256)
SCRAPE_S = 1.0


async def router(scale: float) -> Measured:
    return await _loaded(scale, "router", "decide")


async def scraped(scale: float) -> Measured:
    return await _loaded(scale, "router", "decide", is_scraped=True)


async def bare(scale: float) -> Measured:
    return await _loaded(scale, "bare", "live")


async def _loaded(scale: float, side: str, function: str, *, is_scraped: bool = False) -> Measured:
    ramp = replace(
        RAMP,
        **{name: sized(getattr(RAMP, name), scale, 1_000) for name in ("warm", "closed", "opened")},
    )
    async with a_broker() as url:
        told = decide_subscription(url) if side == "bare" else {}
        async with a_child(
            f"bench.sides.{side}", function, url=url, first=ramp.warm, last=ramp.all, **told
        ) as server:
            address = (await server.ready()).get("http")
            async with _scraping(address if is_scraped else None):
                asking = figures_of(
                    "bench.sides.pacer",
                    "pace",
                    url=url,
                    subject=decide_subscription(url)["subject"],
                    ramp=asdict(ramp),
                )
                asked, served = await asyncio.gather(asking, server.figures())
        await nothing_is_left(url, ramp.all)
    if asked["wrong"]:
        raise Broken(f"{asked['wrong']:.0f} of {ramp.all} answers of {side} were wrong")
    return {**served, **asked}


@contextlib.asynccontextmanager
async def _scraping(address: str | None) -> AsyncIterator[None]:
    """A scraper reads /metrics every second, from before the first request on."""
    if address is None:
        yield
        return
    async with a_child(
        "bench.sides.scraper", "scrape", address=address, pause_s=SCRAPE_S
    ) as scraper:
        await scraper.ready()
        yield


QUESTION = Question(
    name="decide_load",
    asks="How long does an answer take at a rate, open loop?",
    sides=(Side("router", router), Side("router, scraped", scraped), Side("bare nats-py", bare)),
    figures=(
        Figure("capacity", "requests/s, closed loop", against="bare nats-py"),
        Figure("p50_10_ms", "ms, p50 at 10 %", against="bare nats-py"),
        Figure("p99_10_ms", "ms, p99 at 10 %", against="bare nats-py"),
        Figure("p50_50_ms", "ms, p50 at 50 %", against="bare nats-py"),
        Figure("p99_50_ms", "ms, p99 at 50 %", target=at_most(5)),
        Figure("p99_50_ms", "ms, p99 at 50 %", against="bare nats-py"),
        Figure("p99_50_ms", "ms, p99 at 50 %", against="router, scraped", target=at_least(0.8)),
        Figure("p999_50_ms", "ms, p99.9 at 50 %", against="router, scraped"),
        Figure("p50_80_ms", "ms, p50 at 80 %", against="bare nats-py"),
        Figure("p99_80_ms", "ms, p99 at 80 %", against="bare nats-py"),
        Figure("p999_80_ms", "ms, p99.9 at 80 %", against="bare nats-py"),
        Figure("refused_50", "% answered `overloaded` at 50 %"),
        Figure("refused_80", "% answered `overloaded` at 80 %"),
        Figure("late_50_ms", "ms that the asker sent late, p99 at 50 %", against="bare nats-py"),
        Figure("late_80_ms", "ms that the asker sent late, p99 at 80 %", against="bare nats-py"),
    ),
    lasts=(9.0, 42.0),
)
