"""Make glibc's allocator return large blocks, in processes that live long.

A block above a threshold is mapped by itself and returned when it is freed. By default glibc raises
that threshold to the size of each such block, up to 32 MiB. Then the tables of a full memory
(`router.core.bounded_cache`: some MiB, rebuilt now and then beside the old ones) lie in the heap,
among small objects that stay, and resident memory rises by a step now and then, for hours. A
threshold that the environment sets is not changed.
"""

from __future__ import annotations

import ctypes
from typing import Final

LARGE_ALLOCATION: Final = 1 << 20  # bytes
_M_MMAP_THRESHOLD: Final = -3  # malloc.h


def give_large_blocks_back() -> None:
    """Set the threshold for this process. Nothing happens if the C library has no such setting."""
    if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGE_ALLOCATION)
