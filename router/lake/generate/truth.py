"""The exact figures of a load, recorded while it is made: sums in whole 1e-9 of the currency, every
latency, every count.

Only accepted events are summed: the first of each identity, in the order of the stream.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta
from math import ceil

from msgspec import Struct

from router.lake.generate.population import Irregularity, Profile

Row = dict[str, object]
_EPOCH = date(1970, 1, 1)


class ProfileDay(Struct, gc=False):
    """The events of one profile and model on one day. `nanos`: outcomes and adjustments;
    `latencies`: one of each outcome.
    """

    nanos: int = 0
    latencies: array[int] = array("q")
    adjustment_count: int = 0
    adjustment_nanos: int = 0
    uncorrelated_count: int = 0
    uncorrelated_nanos: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    estimated_nanos: int = 0

    @property
    def accepted(self) -> int:
        return len(self.latencies) + self.adjustment_count + self.uncorrelated_count

    def add_outcome(self, nanos: int, latency: int) -> None:
        self.nanos += nanos
        self.latencies.append(latency)

    def add_adjustment(self, nanos: int) -> None:
        self.nanos += nanos
        self.adjustment_count += 1
        self.adjustment_nanos += nanos

    def add_uncorrelated(self, nanos: int) -> None:
        self.uncorrelated_count += 1
        self.uncorrelated_nanos += nanos

    def add_tokens(self, told: int, cached: int, given: int) -> None:
        self.input_tokens += told
        self.cached_tokens += cached
        self.output_tokens += given


class Truth:
    """The figures; `Load` adds one event at a time."""

    def __init__(self, profiles: list[Profile]) -> None:
        self._profiles = profiles
        self._days: dict[int, dict[tuple[int, str], ProfileDay]] = {}
        self.counts: Counter[Irregularity] = Counter()
        self.conflict_ids: list[str] = []

    def cell(self, day: int, index: int, model: str) -> ProfileDay:
        """Return the cell of a day (days since the epoch), a profile's index and a model."""
        cells = self._days.setdefault(day, {})
        if (cell := cells.get((index, model))) is None:
            cell = cells[index, model] = ProfileDay(latencies=array("q"))
        return cell

    @property
    def accepted(self) -> int:
        """The events in silver."""
        return sum(cell.accepted for *_, cell in self._iterate_cells())

    @property
    def nanos(self) -> int:
        """The bill of all, in 1e-9."""
        return sum(cell.nanos for *_, cell in self._iterate_cells())

    def make_rows(self) -> list[Row]:
        """Return rows as `router usage report --json` has them; the percentiles are exact, by
        nearest rank.
        """
        return sorted(
            (row for row, _ in self.iterate_rows()),
            key=lambda row: [
                str(row[name])
                for name in ("day", "tenant_id", "provider_id", "event_type", "status", "model")
            ],
        )

    def iterate_rows(self) -> Iterator[tuple[Row, array[int]]]:
        """Yield each row, in no order, with its latencies in milliseconds, one for each event."""
        for day, profile, model, cell in self._iterate_cells():
            yield _make_row(day, profile, model, cell), cell.latencies

    def to_json(self) -> Row:
        counts = {kind.value: self.counts[kind] for kind in Irregularity}
        return {
            "accepted": self.accepted,
            "cost": format_money(self.nanos),
            **counts,
            "conflict_ids": self.conflict_ids,
            "rows": self.make_rows(),
        }

    def _iterate_cells(self) -> Iterator[tuple[int, Profile, str, ProfileDay]]:
        for day, cells in self._days.items():
            for (index, model), cell in cells.items():
                yield day, self._profiles[index], model, cell


def format_money(nanos: int) -> str:
    """Format whole 1e-9 with nine decimals."""
    sign, rest = ("-" if nanos < 0 else ""), abs(nanos)
    return f"{sign}{rest // 10**9}.{rest % 10**9:09d}"


def _make_row(day: int, profile: Profile, model: str, cell: ProfileDay) -> Row:
    ordered = sorted(cell.latencies)
    return {
        "tenant_id": profile.tenant_id,
        "provider_id": profile.provider_id,
        "event_type": profile.event_type,
        "status": profile.status,
        "model": model,
        "day": str(_EPOCH + timedelta(days=day)),
        "count": len(ordered),
        "cost": format_money(cell.nanos),
        **{
            f"latency_p{percent}_ms": _find_percentile(ordered, percent) for percent in (50, 95, 99)
        },
        "latency_sum_ms": sum(ordered),
        "latency_min_ms": min(ordered, default=None),
        "latency_max_ms": max(ordered, default=None),
        "adjustment_count": cell.adjustment_count,
        "adjustment_cost": format_money(cell.adjustment_nanos),
        "uncorrelated_count": cell.uncorrelated_count,
        "uncorrelated_cost": format_money(cell.uncorrelated_nanos),
        "input_tokens": cell.input_tokens,
        "cached_tokens": cell.cached_tokens,
        "output_tokens": cell.output_tokens,
        "estimated_cost": format_money(cell.estimated_nanos),
    }


def _find_percentile(rising: list[int], percent: int) -> int | None:
    """By nearest rank; None: there is no outcome."""
    return rising[ceil(len(rising) * percent / 100) - 1] if rising else None
