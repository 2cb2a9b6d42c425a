"""From many measurements to the few numbers that are shown. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from msgspec import Struct


class Spread(Struct, frozen=True):
    """The median of the rounds, and the least and the most of them."""

    median: float
    least: float
    most: float


def spread(values: Sequence[float]) -> Spread:
    return Spread(median(values), min(values), max(values))


def shown(value: float) -> str:
    """For people: three digits that count, thousands with a comma."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The value that `percent` of a rising sequence do not exceed."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def latencies(seconds: Iterable[float]) -> dict[str, float]:
    """p50, p99 and the longest, milliseconds."""
    ordered = sorted(seconds)
    return {
        "p50_ms": percentile(ordered, 50) * 1e3,
        "p99_ms": percentile(ordered, 99) * 1e3,
        "longest_ms": ordered[-1] * 1e3,
    }
