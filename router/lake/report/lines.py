"""The content of a report: a line for each group, and the totals, in plain numbers. Pure.

An outcome has failed if it is an error or a timeout. A cancelled one has not: its caller gave up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal

from msgspec import Struct

from router.core.errors import Misconfigured
from router.lake.tables.gold_columns import GOLD_COLUMNS

DIMENSIONS = ("tenant_id", "provider_id", "event_type", "status", "day")
FAILED_STATUSES = ("error", "timeout")
PERCENTILES = {"latency_p50_ms": 0.50, "latency_p95_ms": 0.95, "latency_p99_ms": 0.99}
_LABELS = tuple(column.label for column in GOLD_COLUMNS)
REPORT_FIGURES = (*_LABELS[:2], *PERCENTILES, *_LABELS[2:])  # columns after the group
_SHORT = {"tenant": "tenant_id", "provider": "provider_id", "type": "event_type"}


class UsageQuery(Struct, frozen=True, kw_only=True):
    """Which events, and the columns to group them by. An empty filter passes all events."""

    by: tuple[str, ...] = DIMENSIONS
    days: tuple[str, ...] = ()  # YYYY-MM-DD, UTC, of the events' timestamps
    tenants: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()


class ReportLine(Struct, frozen=True):
    """One group. Latencies are milliseconds, `cost` is exact."""

    group: Mapping[str, str]
    failed: int
    figures: Mapping[str, int | Decimal]  # by label of `gold_columns`
    percentiles: Mapping[str, float]

    @property
    def count(self) -> int:
        return int(self.figures["count"])

    @property
    def cost(self) -> Decimal:
        return Decimal(self.figures["cost"])

    @property
    def error_rate(self) -> float:
        return self.failed / self.count if self.count else 0.0

    def to_json(self) -> dict[str, object]:
        """Return the row of `--json`; an amount is text with nine decimals."""
        figures = {name: f"{value:.9f}" if isinstance(value, Decimal) else value for name, value in self.figures.items()}
        values = {**figures, **self.percentiles}
        return {**self.group, **{name: values[name] for name in REPORT_FIGURES}}


class UsageReport(Struct, frozen=True):
    """The lines, sorted by their groups, and the totals of all of them."""

    by: tuple[str, ...]
    lines: Sequence[ReportLine]
    totals: ReportLine | None  # None: there are no events

    def to_json(self) -> dict[str, object]:
        totals = {} if self.totals is None else {**self.totals.to_json(), "error_rate": self.totals.error_rate}
        return {"rows": [line.to_json() for line in self.lines], "totals": totals}


def parse_dimensions(names: Iterable[str]) -> tuple[str, ...]:
    """Read `tenant,day` and the like as columns. Raises Misconfigured."""
    columns = tuple(dict.fromkeys(_SHORT.get(name.strip(), name.strip()) for name in names))
    if unknown := [name for name in columns if name not in DIMENSIONS]:
        raise Misconfigured("--by", f"{unknown[0]!r}: choose from tenant, provider, type, status, day")
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
