"""glibc's allocator, told to give large blocks back, in processes that live long.

A block above a threshold is mapped by itself and given back when it is freed. On its own, glibc raises that threshold to the size
of each such block, up to 32 MiB. So the tables of a full memory (`router.memory`: some MiB, made anew now and then beside the
old ones) soon lie in the heap, among small things that stay: resident memory rises by a step now and then, for hours. A threshold
that somebody set stays where it is.
"""

from __future__ import annotations

import ctypes
from typing import Final

LARGE: Final = 1 << 20  # bytes
_M_MMAP_THRESHOLD: Final = -3  # malloc.h


def give_large_blocks_back() -> None:
    """For this process, from now on. Nothing happens where the C library has no such choice."""
    if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGE)
