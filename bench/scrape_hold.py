"""How long does a scrape hold the loop? A ticker of one millisecond runs on the router's loop, with
scrapes and without.

The router has decided before and is idle now: what the ticker waits for is the scrape, the timer's
own millisecond, and the operating system. The side that is left alone shows the last two.
"""

from __future__ import annotations

from bench.broker import a_broker
from bench.process import a_child, figures_of
from bench.question import Figure, Measured, Question, Side, at_most, sized

REQUESTS = 20_000  # so that every series is there
SECONDS = 5.0


async def scraped(scale: float) -> Measured:
    async with (
        a_broker() as url,
        a_child("bench.sides.ticker", "tick", url=url, **await _filled(url, scale)) as router,
    ):
        address = (await router.ready())["http"]
        async with a_child("bench.sides.scraper", "scrape", address=address) as scraper:
            await scraper.ready()
            return await router.figures()


async def left_alone(scale: float) -> Measured:
    async with (
        a_broker() as url,
        a_child("bench.sides.ticker", "tick", url=url, **await _filled(url, scale)) as router,
    ):
        await router.ready()
        return await router.figures()


async def _filled(url: str, scale: float) -> dict[str, float]:
    count = sized(REQUESTS, scale)
    await figures_of("bench.sides.store", "fill", url=url, count=count)
    return {"count": count, "seconds": max(1.5, SECONDS * scale)}


QUESTION = Question(
    name="scrape_hold",
    asks="How long does a scrape of /metrics hold the loop?",
    sides=(Side("router", scraped), Side("left alone", left_alone)),
    figures=(
        Figure("longest_ms", "ms late at most, under scrapes", target=at_most(5)),
        Figure("longest_ms", "ms late at most", against="left alone"),
        Figure("p99_ms", "ms late, p99", against="left alone"),
    ),
    lasts=(7.0, 12.0),
    unaffected="stores nothing while it is measured",
)
