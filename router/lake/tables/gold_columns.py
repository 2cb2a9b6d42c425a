"""The figures of gold, one entry each, and its tables. Schema, sums, reports, seals, reconciliation
and `router usage schema` follow from them.

    a new column = one entry at the end of `GOLD_COLUMNS`, and its exact value in `generate.truth`,
    under the entry's `label`

A sum is of events of some kind (`tables.gold`):

    outcomes       what reached a provider, once                         count, latencies, tokens
    estimated      of these, where the cost was computed from what passed by
    money          outcomes and adjustments                              cost: the bill
    adjustments    of an outcome, a held cost, a bill
    uncorrelated   of no known assignment: no money of the bill
    (adjustments of one budget are in silver alone)

Additive: no entry is removed or changes. A file that is older than an entry has null there, and a
seal names the columns that it was made of, so a new entry changes neither.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

MONEY = "decimal(38,9)"


EventKind = Literal["outcomes", "estimated", "money", "adjustments", "uncorrelated"]


class GoldColumn(Struct, frozen=True, kw_only=True):
    """One figure of a group of events."""

    name: str
    kind: str  # its type, as in `schemas`
    fold: Literal["sum", "min", "max"]  # how partial sums are merged
    source: str | None  # the column of silver that is folded; None: every event counts 1
    of: EventKind = "outcomes"
    label: str  # its name in a report


GOLD_COLUMNS = (
    GoldColumn(name="count", kind="bigint", fold="sum", source=None, label="count"),
    GoldColumn(name="cost", kind=MONEY, fold="sum", source="cost", label="cost", of="money"),
    GoldColumn(
        name="latency_sum", kind="bigint", fold="sum", source="latency_ms", label="latency_sum_ms"
    ),
    GoldColumn(
        name="latency_min", kind="bigint", fold="min", source="latency_ms", label="latency_min_ms"
    ),
    GoldColumn(
        name="latency_max", kind="bigint", fold="max", source="latency_ms", label="latency_max_ms"
    ),
    GoldColumn(
        name="adjustment_count",
        kind="bigint",
        fold="sum",
        source=None,
        label="adjustment_count",
        of="adjustments",
    ),
    GoldColumn(
        name="adjustment_cost",
        kind=MONEY,
        fold="sum",
        source="cost",
        label="adjustment_cost",
        of="adjustments",
    ),
    GoldColumn(
        name="uncorrelated_count",
        kind="bigint",
        fold="sum",
        source=None,
        label="uncorrelated_count",
        of="uncorrelated",
    ),
    GoldColumn(
        name="uncorrelated_cost",
        kind=MONEY,
        fold="sum",
        source="cost",
        label="uncorrelated_cost",
        of="uncorrelated",
    ),
    GoldColumn(
        name="input_tokens", kind="bigint", fold="sum", source="input_tokens", label="input_tokens"
    ),
    GoldColumn(
        name="cached_tokens",
        kind="bigint",
        fold="sum",
        source="cached_tokens",
        label="cached_tokens",
    ),
    GoldColumn(
        name="output_tokens",
        kind="bigint",
        fold="sum",
        source="output_tokens",
        label="output_tokens",
    ),
    GoldColumn(
        name="estimated_cost",
        kind=MONEY,
        fold="sum",
        source="cost",
        label="estimated_cost",
        of="estimated",
    ),
)
HISTOGRAM = "histogram"  # of latencies; merged by adding its buckets, and no figure by itself

# of gold's first version, for ever
FIRST_FIGURES = ("count", "cost", "latency_sum", "latency_min", "latency_max", HISTOGRAM)

FOLDS = {column.name: column.fold for column in GOLD_COLUMNS}
FIGURES = (*FOLDS, HISTOGRAM)
SUMMED = tuple(column for column in GOLD_COLUMNS if column.fold == "sum")
AMOUNTS = frozenset(column.name for column in GOLD_COLUMNS if column.kind == MONEY)


def declare(columns: tuple[GoldColumn, ...]) -> str:
    """Return names and types, as `schemas` has them."""
    return ", ".join(f"{column.name} {column.kind}" for column in columns)


# -- The tables of gold: how long their windows are, and what their sums are grouped by.
#
# Minutes are for graphs of the whole, so they have no tenant: with one, gold had as many rows as
# there were events. They have no model either: a model's name comes from a tenant's own providers,
# and rows of all tenants together must not grow by it.


GOLD_DIMENSIONS = ("tenant_id", "provider_id", "event_type", "status", "model")
# the model of an event that names none: a group of its own, so a column of groups is never null
NO_MODEL = ""
WITHOUT_TENANT = ("provider_id", "event_type", "status")


class GoldTable(Struct, frozen=True):
    """One table."""

    grain: Literal["minute", "hour", "day"]
    dimensions: tuple[str, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that a sum is grouped by."""
        return ("window_start", *self.dimensions, "late", "corrects_window")


GOLD_TABLES = {
    "gold_minute": GoldTable("minute", WITHOUT_TENANT),
    "gold_hour": GoldTable("hour", GOLD_DIMENSIONS),
    "gold_day": GoldTable("day", GOLD_DIMENSIONS),
}
