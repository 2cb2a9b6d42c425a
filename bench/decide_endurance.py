"""Does it stay as it is? A million requests: CPU per decision by slices of a hundredth, resident memory on the way.

Every request is new and there are more sessions than are remembered, so each bounded cache fills up and starts to forget.
"""

from __future__ import annotations

from bench.broker import a_broker, nothing_is_left
from bench.process import figures_of
from bench.question import Figure, Measured, Question, Side, at_most, sized

REQUESTS = 1_000_000
USERS = 200_000
PATIENCE_S = 1800.0


async def router(scale: float) -> Measured:
    count = sized(REQUESTS, scale)
    async with a_broker() as url:
        # All of it beforehand: a feeder beside it on two cores would be what is measured.
        await figures_of("bench.sides.store", "fill", PATIENCE_S, url=url, count=count, users=USERS)
        figures = await figures_of("bench.sides.endurance", "decide", PATIENCE_S, url=url, count=count)
        await nothing_is_left(url, count)
    return figures


QUESTION = Question(
    name="decide_endurance",
    asks="Does a million requests leave it as it was?",
    sides=(Side("router", router),),
    figures=(
        Figure("cpu_drift", "CPU per decision, last tenth / first", target=at_most(1.10)),
        # The tables under the caches of 100 000 take their last size some 700 000 requests in: until then it is warm-up.
        Figure("growth", "resident memory, at the end / at three quarters", target=at_most(1.05)),
        Figure("cpu_10_us", "CPU µs/decision, first tenth"),
        Figure("cpu_100_us", "CPU µs/decision, last tenth"),
        Figure("rss_10_mib", "MiB resident at 10 %"),
        Figure("rss_50_mib", "MiB resident at 50 %"),
        Figure("rss_75_mib", "MiB resident at 75 %"),
        Figure("rss_100_mib", "MiB resident at 100 %"),
    ),
    most_rounds=1,
)
