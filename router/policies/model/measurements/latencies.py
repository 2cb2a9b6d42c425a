"""A distribution of latencies: counts in buckets, each 2^(1/8) times as wide as the one before, so
a percentile is off by 5 % at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import log2

_PER_DOUBLING = 8


def find_bucket(latency_ms: float) -> int:
    """0 … 175 for a latency up to an hour."""
    return int(log2(latency_ms + 1) * _PER_DOUBLING)


def find_edge(bucket: int) -> float:
    """The latency in milliseconds at which the bucket ends."""
    return float(2.0 ** ((bucket + 1) / _PER_DOUBLING) - 1)


def find_percentile(counts: Mapping[int, int], share: float) -> float | None:
    """The latency below which this share (0..1) of the counts lies, nearest rank; None without
    counts.
    """
    left = share * sum(counts.values())
    for bucket in sorted(counts):
        left -= counts[bucket]
        if left <= 0:
            return float(2.0 ** ((bucket + 0.5) / _PER_DOUBLING) - 1)
    return None


def add_up(*parts: Mapping[int, int]) -> Counter[int]:
    total: Counter[int] = Counter()
    for part in parts:
        total.update(part)
    return total
