"""What does a larger payload cost? A backlog of 100 B, 1 KB, 10 KB and 100 KB each, beside the bare loop on the same.

As `decide_backlog`. Both read the whole request; the router also takes its content's hash, to know a request that comes again.
"""

from __future__ import annotations

from functools import partial

from bench.broker import a_broker, decide_subscription, nothing_is_left
from bench.process import figures_of
from bench.question import Figure, Measured, Question, Side, sized

SIZES = {"100 B": (100, 40_000), "1 KB": (1_000, 40_000), "10 KB": (10_000, 15_000), "100 KB": (100_000, 2_000)}  # bytes, requests


async def _decided(side: str, function: str, size: str, scale: float) -> Measured:
    payload, full = SIZES[size]
    count = sized(full, scale)
    async with a_broker() as url:
        await figures_of("bench.sides.store", "fill", url=url, count=count, payload=payload)
        told = {"first": 1} if side == "router" else decide_subscription(url)
        figures = await figures_of(f"bench.sides.{side}", function, url=url, last=count, **told)
        await nothing_is_left(url, count)
    return figures


QUESTION = Question(
    name="decide_payload",
    asks="What does a larger payload cost?",
    sides=tuple(
        side
        for size in SIZES
        for side in (
            Side(f"router, {size}", partial(_decided, "router", "decide", size)),
            Side(f"bare, {size}", partial(_decided, "bare", "backlog", size)),
        )
    ),
    figures=tuple(Figure("rate", "requests/s", of=f"router, {size}", against=f"bare, {size}") for size in SIZES),
    lasts=(12.0, 14.0),
)
