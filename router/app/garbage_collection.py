"""Python's cycle collector, set for a process that makes and drops a few dozen objects a message and hardly a cycle.

By default it looks through the young ones every 700 allocations, which is every few messages: what waits for its PubAck is looked
at again and again, and is no garbage. That was a quarter of a result's processor time (77 µs with it, 57 µs so).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG = 20_000  # allocations more than releases, before the young ones are looked through
OLDER = 10  # of such rounds before the next generation is, and again for the oldest


@contextmanager
def calm_collector() -> Iterator[None]:
    """As long as a router runs; what its start made is never looked at again."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, OLDER, OLDER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def collections() -> dict[tuple[str, ...], int]:
    """How often each generation was looked through so far."""
    return {(str(generation),): told["collections"] for generation, told in enumerate(gc.get_stats())}
