"""Silver summed up here, against the sums that gold holds: for each tenant, provider, type and status."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from router.lake.reconcile.checks import Check, named
from router.lake.reconcile.columns import Tables
from router.lake.tables.gold import buckets

GROUP = ("tenant_id", "provider_id", "event_type", "status")
GOLD = ("gold_minute", "gold_day")
FIGURES = ("count", "cost", "latency", "buckets")

Sums = dict[tuple[Any, ...], tuple[int, Decimal, int, int]]  # by group: count, cost, latency, sum of the latencies' bucket numbers


def check_sums(tables: Tables) -> tuple[Check, Check]:
    """An adjustment stands in another window than its event, and in the same group."""
    silver = _added(map(_of_silver, tables.each("silver", [*GROUP, "cost", "latency_ms"])))
    gold = (_added(map(_of_gold, tables.each(table, [*GROUP, "count", "cost", "latency_sum", "histogram"]))) for table in GOLD)
    minutes, days = (_compared(f"silver = {table}", silver, sums) for table, sums in zip(GOLD, gold, strict=True))
    return minutes, days


def _of_silver(rows: pa.Table) -> pa.Table:
    latency = rows["latency_ms"]
    return _named(rows, pa.repeat(pa.scalar(1, pa.int64()), len(rows)), latency, buckets(latency).cast(pa.int64()))


def _of_gold(rows: pa.Table) -> pa.Table:
    return _named(rows, rows["count"], rows["latency_sum"], _numbers(rows["histogram"]))


def _named(rows: pa.Table, *figures: pa.Array | pa.ChunkedArray) -> pa.Table:
    count, latency, numbers = figures
    return pa.table([*(rows[name] for name in GROUP), count, rows["cost"], latency, numbers], names=[*GROUP, *FIGURES])


def _numbers(histograms: pa.ChunkedArray) -> pa.Array:
    """Of each row, its bucket numbers added up, each as often as it counts."""
    maps = histograms.combine_chunks()
    passed = pc.cumulative_sum(pc.multiply(maps.keys.cast(pa.int64()), maps.items))
    passed = pa.concat_arrays([pa.array([0], pa.int64()), passed])
    return pc.subtract(passed.take(maps.offsets[1:]), passed.take(maps.offsets[:-1]))


def _added(rows: Iterable[pa.Table]) -> Sums:
    parts = [_summed(one) for one in rows]
    if not parts:
        return {}
    whole = _summed(pa.concat_tables(parts))
    columns = [whole[name].to_pylist() for name in (*GROUP, *FIGURES)]
    return {row[:4]: (row[4], row[5], row[6], row[7]) for row in zip(*columns, strict=True)}


def _summed(rows: pa.Table) -> pa.Table:
    made = rows.group_by(list(GROUP)).aggregate([(name, "sum") for name in FIGURES])
    return made.select([*GROUP, *(f"{name}_sum" for name in FIGURES)]).rename_columns([*GROUP, *FIGURES])


def _compared(name: str, silver: Sums, gold: Sums) -> Check:
    wrong = sorted(group for group in silver.keys() | gold.keys() if silver.get(group) != gold.get(group))
    count, cost = _totals(gold)
    figures = {"groups": len(gold), "events": count, "cost": f"{cost:.9f}", "differ": len(wrong)}
    says = f"{count} events, {cost:.9f}, in {len(gold)} groups"
    return Check(name, not wrong, says, figures, named("/".join(map(str, group)) for group in wrong))


def _totals(sums: Sums) -> tuple[int, Decimal]:
    return sum(count for count, *_ in sums.values()), sum((cost for _, cost, *_ in sums.values()), Decimal(0))
