"""How a process uses memory: Python's cycle collector, and glibc's allocator, tuned for processes
that live long.

By default the collector scans the young objects every 700 allocations, which is every few messages:
it scans messages that wait for their publish ack again and again. That was a quarter of the
processor time of a result (77 µs before, 57 µs after).
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

YOUNG = 20_000  # allocations minus releases between two scans of the youngest generation
OLDER = 10  # scans of one generation between two scans of the next older one


@contextmanager
def calm_collector() -> Iterator[None]:
    """Tune the collector within the block; it never scans again what existed before it."""
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
    """How often each generation was scanned so far."""
    return {
        (str(generation),): stats["collections"] for generation, stats in enumerate(gc.get_stats())
    }


# -- Make glibc's allocator return large blocks, in processes that live long.
#
# A block above a threshold is mapped by itself and returned when it is freed. By default glibc
# raises that threshold to the size of each such block, up to 32 MiB. Then the tables of a
# memory that is full (some MiB, rebuilt now and then beside the old ones) lie in
# the heap, among small objects that stay, and resident memory rises by a step now and then, for
# hours. A threshold that the environment sets is not changed.


LARGE_ALLOCATION: Final = 1 << 20  # bytes
_M_MMAP_THRESHOLD: Final = -3  # malloc.h


def give_large_blocks_back() -> None:
    """Set the threshold for this process. Nothing happens if the C library has no such setting."""
    if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGE_ALLOCATION)
