"""Compute percentiles from the log histogram of every gold row (γ = 1.02): merged by adding, off by at most 1 %.

Bucket i holds latencies above γ^(i-1) and up to γ^i milliseconds, -1 those of 0 (`tables.gold` writes them). A bucket is read
as 2γ^i/(γ+1), which is within (γ-1)/(γ+1) = 0.99 % of every latency in it, and is clamped to the smallest and the largest latency
of the group, which are known exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil

GAMMA = 1.02
OF_ZERO = -1


def compute_percentiles(buckets: Iterable[tuple[int, int]], shares: Sequence[float], least: float, most: float) -> list[float]:
    """Compute percentiles by nearest rank, of (bucket, count) pairs in any order; shares rise, from 0 to 1. Milliseconds."""
    ordered = sorted(buckets)
    total = sum(count for _, count in ordered)
    values: list[float] = []
    passed, at = 0, -1
    for share in shares:
        rank = max(1, ceil(total * share))
        while passed < rank and at + 1 < len(ordered):
            at += 1
            passed += ordered[at][1]
        values.append(min(max(read_bucket(ordered[at][0]), least), most) if ordered else least)
    return values


def read_bucket(bucket: int) -> float:
    """Return the latency that a bucket is read as, milliseconds."""
    return 0.0 if bucket == OF_ZERO else float(2 * GAMMA**bucket / (GAMMA + 1))
