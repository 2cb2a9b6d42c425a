"""Compute percentiles from the log histogram of every gold row (γ = 1.02): merged by adding, off by at most 1 %.

Bucket i holds latencies above γ^(i-1) and up to γ^i milliseconds, -1 those of 0 (`tables.gold` writes them). A bucket is read
as 2γ^i/(γ+1), which is within (γ-1)/(γ+1) = 0.99 % of every latency in it, and is clamped to the smallest and the largest latency
of the group, which are known exactly.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

GAMMA = 1.02
OF_ZERO = -1
PLACES = 3  # decimals of a percentile

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def compute_percentiles(buckets: Integers, counts: Integers, sizes: Integers, shares: Mapping[str, float]) -> dict[str, Floats]:
    """Compute percentiles by nearest rank, milliseconds, for each group.

    `buckets`, `counts`: of all groups one after the other, buckets rising in each. `sizes`: how many buckets each group has; 0: no
    percentile, nan."""
    running = np.cumsum(counts)
    ends = np.cumsum(sizes)
    before = np.concatenate([[0], running])[ends - sizes]
    totals = np.concatenate([[0], running])[ends] - before
    found = {}
    for name, share in shares.items():
        ranks = np.maximum(1, np.ceil(totals * share)).astype(np.int64)
        places = np.minimum(np.searchsorted(running, before + ranks), max(len(buckets) - 1, 0))
        found[name] = np.where(totals > 0, read_buckets(buckets[places]), np.nan) if len(buckets) else np.full(len(sizes), np.nan)
    return found


def read_buckets(buckets: Integers) -> Floats:
    """Return the latencies that buckets are read as, milliseconds."""
    values: Floats = np.where(buckets == OF_ZERO, 0.0, 2 * np.power(GAMMA, buckets.astype(np.float64)) / (GAMMA + 1))
    return values
