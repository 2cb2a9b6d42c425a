"""What does a larger payload cost? A backlog of 100 B, 1 KB, 10 KB and 100 KB each, beside the bare
loop on the same.

As `decide_backlog`. Both read the whole request; the router also takes its content's hash, to know
a request that comes again.
"""

from __future__ import annotations

from bench.question import Figure, Question
from bench.stored import StoredWork, as_subscriber, from_first

# bytes, requests
SIZES = {
    "100 B": (100, 40_000),
    "1 KB": (1_000, 40_000),
    "10 KB": (10_000, 15_000),
    "100 KB": (100_000, 2_000),
}

REQUESTS = StoredWork("store.fill", 40_000)


QUESTION = Question(
    name="decide_payload",
    asks="What does a larger payload cost?",
    sides=tuple(
        side
        for size, (payload, full) in SIZES.items()
        for side in (
            REQUESTS.side(
                f"router, {size}", "router.decide", from_first, full=full, fill={"payload": payload}
            ),
            REQUESTS.side(
                f"bare, {size}", "bare.backlog", as_subscriber, full=full, fill={"payload": payload}
            ),
        )
    ),
    figures=tuple(
        Figure("rate", "requests/s", of=f"router, {size}", against=f"bare, {size}")
        for size in SIZES
    ),
    lasts=(12.0, 14.0),
)
