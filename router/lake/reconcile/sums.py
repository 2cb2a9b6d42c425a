"""Silver summed up here, against the sums that gold holds: for each tenant, provider, type and status."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

from router.lake.reconcile.checks import Check, named
from router.lake.reconcile.columns import Tables

GROUP = ("tenant_id", "provider_id", "event_type", "status")
_SILVER = {"cost": [("cost", "count"), ("cost", "sum")], "latency_ms": [("latency_ms", "sum")]}
_GOLD = {"count": [("count", "sum")], "cost": [("cost", "sum")], "latency_sum": [("latency_sum", "sum")]}

Sums = dict[tuple[Any, ...], tuple[int, Decimal, int]]  # by group: count, cost, latency


def check_sums(tables: Tables) -> tuple[Check, Check]:
    """An adjustment stands in another window than its event, and in the same group."""
    silver = _added(tables, "silver", _SILVER)
    return _compared("silver = gold_minute", silver, _added(tables, "gold_minute", _GOLD)), _compared(
        "silver = gold_day", silver, _added(tables, "gold_day", _GOLD)
    )


def _added(tables: Tables, table: str, how: dict[str, list[tuple[str, str]]]) -> Sums:
    parts = [
        rows.group_by(list(GROUP)).aggregate([one for many in how.values() for one in many]) for rows in tables.each(table, [*GROUP, *how])
    ]
    if not parts:
        return {}
    whole = pa.concat_tables(parts)
    names = [name for name in whole.column_names if name not in GROUP]
    summed = whole.group_by(list(GROUP)).aggregate([(name, "sum") for name in names])
    columns = [summed[name].to_pylist() for name in (*GROUP, *(f"{name}_sum" for name in names))]
    return {row[:4]: (row[4], row[5], row[6]) for row in zip(*columns, strict=True)}


def _compared(name: str, silver: Sums, gold: Sums) -> Check:
    wrong = sorted(group for group in silver.keys() | gold.keys() if silver.get(group) != gold.get(group))
    count, cost = _totals(gold)
    figures = {"groups": len(gold), "events": count, "cost": f"{cost:.9f}", "differ": len(wrong)}
    says = f"{count} events, {cost:.9f}, in {len(gold)} groups"
    return Check(name, not wrong, says, figures, named("/".join(map(str, group)) for group in wrong))


def _totals(sums: Sums) -> tuple[int, Decimal]:
    return sum(count for count, _, _ in sums.values()), sum((cost for _, cost, _ in sums.values()), Decimal(0))
