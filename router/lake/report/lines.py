"""The content of a report: a line for each group, and the totals. Pure.

An outcome has failed if it is an error or a timeout. A cancelled one has not: its caller gave up. A
line of adjustments alone, or of uncorrelated events, has no outcome, so it has no latency.

The lines are an Arrow table until they are shown, one after the other. A correction is an event of
a sealed day, counted in the day on which it came: `correction_count` and `correction_cost` say how
much of a line that is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
from msgspec import Struct

from router.core.errors import Misconfigured
from router.lake.tables.gold_columns import GOLD_COLUMNS, MONEY, GoldColumn

DIMENSIONS = ("tenant_id", "provider_id", "event_type", "status", "model", "day")
FAILED_STATUSES = ("error", "timeout")
PERCENTILES = {"latency_p50_ms": 0.50, "latency_p95_ms": 0.95, "latency_p99_ms": 0.99}
# how much of these is of sealed days
CORRECTIONS = {"correction_count": "count", "correction_cost": "cost"}
_LABELS = tuple(column.label for column in GOLD_COLUMNS)
REPORT_FIGURES = (*_LABELS[:2], *PERCENTILES, *_LABELS[2:], *CORRECTIONS)  # columns after the group
LINES_AT_ONCE = 1024
_SHORT = {"tenant": "tenant_id", "provider": "provider_id", "type": "event_type"}


Figure = int | Decimal | None


class UsageQuery(Struct, frozen=True, kw_only=True):
    """Which events, and the columns to group them by. An empty filter passes all events."""

    by: tuple[str, ...] = DIMENSIONS
    # YYYY-MM-DD, UTC, of the events' timestamps; of a correction, the day on which it came
    days: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()


class ReportLine(Struct, frozen=True):
    """One group. Latencies are milliseconds, `cost` is exact."""

    group: Mapping[str, str]
    failed: int
    figures: Mapping[str, Figure]  # by label of `gold_columns`
    percentiles: Mapping[str, float | None]  # None: there is no outcome
    corrections: Mapping[str, Figure]  # by label of CORRECTIONS

    @property
    def count(self) -> int:
        return int(self.figures["count"] or 0)

    @property
    def cost(self) -> Decimal:
        return Decimal(self.figures["cost"] or 0)

    @property
    def all_figures(self) -> Mapping[str, Figure]:
        return {**self.figures, **self.corrections}

    @property
    def error_rate(self) -> float:
        return self.failed / self.count if self.count else 0.0

    def to_json(self) -> dict[str, object]:
        """Return the row of `--json`; an amount is text with nine decimals."""
        figures = {
            name: f"{value:.9f}" if isinstance(value, Decimal) else value
            for name, value in self.all_figures.items()
        }
        values = {**figures, **self.percentiles}
        return {**self.group, **{name: values[name] for name in REPORT_FIGURES}}


class UsageReport(Struct, frozen=True):
    """The lines, sorted by their groups, and the totals of all of them.

    `rows`: the columns of `by`, `failed`, and the figures by their names in gold; percentiles by
    label.
    """

    by: tuple[str, ...]
    rows: pa.Table
    totals: ReportLine | None  # None: there are no events
    currency: str | None = None  # ISO 4217

    @property
    def lines(self) -> Sequence[ReportLine]:
        """All lines at once: for a page, which shows few."""
        return list(self.iterate_lines())

    def iterate_lines(self, most: int | None = None) -> Iterator[ReportLine]:
        """Yield the lines, or the first ones, without all of them in memory."""
        for batch in self.rows.slice(0, most).to_batches(LINES_AT_ONCE):
            for row in batch.to_pylist():
                yield make_line(row, self.by)

    def describe_totals(self) -> dict[str, object]:
        totals = (
            {}
            if self.totals is None
            else {**self.totals.to_json(), "error_rate": self.totals.error_rate}
        )
        return (
            {**totals, "currency": self.currency}
            if totals and self.currency is not None
            else totals
        )

    def to_json(self) -> dict[str, object]:
        return {
            "rows": [line.to_json() for line in self.iterate_lines()],
            "totals": self.describe_totals(),
        }


def make_line(row: Mapping[str, Any], by: Sequence[str]) -> ReportLine:
    corrections = {name: _read_figure(row[name], of) for name, of in CORRECTED_COLUMNS.items()}
    return ReportLine(
        group={name: row[name] for name in by},
        failed=int(row["failed"]),
        figures={column.label: _read_figure(row[column.name], column) for column in GOLD_COLUMNS},
        percentiles={name: row[name] for name in PERCENTILES},
        corrections=corrections,
    )


CORRECTED_COLUMNS = {
    name: next(column for column in GOLD_COLUMNS if column.name == of)
    for name, of in CORRECTIONS.items()
}


def _read_figure(value: Any, column: GoldColumn) -> Figure:
    """Return 0 for a sum that is null: no file of the group has the column. A least or greatest
    value of nothing stays None.
    """
    if value is None and column.fold != "sum":
        return None
    number = Decimal(value or 0)
    return number if column.kind == MONEY else int(number)


def parse_dimensions(names: Iterable[str]) -> tuple[str, ...]:
    """Read `tenant,day` and the like as columns. Raises Misconfigured."""
    columns = tuple(dict.fromkeys(_SHORT.get(name.strip(), name.strip()) for name in names))
    if unknown := [name for name in columns if name not in DIMENSIONS]:
        raise Misconfigured(
            "--by", f"{unknown[0]!r}: choose from tenant, provider, type, status, model, day"
        )
    return columns


def parse_days(names: Iterable[str]) -> tuple[str, ...]:
    """Check that each is a date of the calendar. Raises Misconfigured."""
    dates = tuple(names)
    for name in dates:
        try:
            date.fromisoformat(name)
        except ValueError as exc:
            raise Misconfigured("--day", f"{name!r}: a day as YYYY-MM-DD") from exc
    return dates
