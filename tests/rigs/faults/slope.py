"""A straight line through samples, and whether it lies flat.

The line is fitted to the means of each minute: samples a second apart are not independent, and a
confidence that takes them to be is too sure of itself. Written criterion: **flat** is a series
whose slope is known (95 %) to be less than `allowed` an hour, up or down does not matter: what
shrinks is no leak. **growing** is one that is known to be more. Else the time was too short to say:
**unsure**.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from statistics import fmean

from msgspec import Struct

FLAT, GROWING, UNSURE = "flat", "growing", "unsure"

# Student's t, two-sided 95 %, by degrees of freedom; above them it is 1.96 and a little.
_T = (
    12.71,
    4.30,
    3.18,
    2.78,
    2.57,
    2.45,
    2.36,
    2.31,
    2.26,
    2.23,
    2.20,
    2.18,
    2.16,
    2.14,
    2.13,
    2.12,
    2.11,
    2.10,
    2.09,
    2.09,
)


class Line(Struct, frozen=True):
    """`slope` a hour, `margin`: half of its 95 % interval; `first`, `last`: the samples at both
    ends.
    """

    slope: float
    margin: float
    first: float
    last: float

    def verdict(self, allowed: float) -> str:
        """`allowed`: how much an hour still is flat."""
        if self.slope + self.margin <= allowed:
            return FLAT
        return GROWING if self.slope - self.margin > allowed else UNSURE


def fitted(
    samples: Sequence[tuple[float, float]], of_a_minute: Callable[[list[float]], float] = fmean
) -> Line:
    """Least squares over (seconds, value), a value a minute. ValueError with less than three
    minutes.
    """
    minutes: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    for at, value in samples:
        minutes[int(at // 60)].append((at, value))
    if len(minutes) < 3:
        raise ValueError(f"{len(minutes)} minutes are too few for a slope: three are the least")
    points = [
        (fmean(at for at, _ in part) / 3600, of_a_minute([value for _, value in part]))
        for _, part in sorted(minutes.items())
    ]
    slope, margin = _least_squares(points)
    return Line(slope, margin, samples[0][1], samples[-1][1])


def _least_squares(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    middle, mean = fmean(x for x, _ in points), fmean(y for _, y in points)
    spread = sum((x - middle) ** 2 for x, _ in points)
    slope = sum((x - middle) * (y - mean) for x, y in points) / spread
    free = len(points) - 2
    residue = sum((y - mean - slope * (x - middle)) ** 2 for x, y in points) / free
    return slope, (_T[free - 1] if free <= len(_T) else 2.0) * math.sqrt(residue / spread)
