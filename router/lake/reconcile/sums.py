"""Sum silver and compare it with the sums in gold, for each day, tenant, provider, type, status and
model (minutes: no tenant, no model). The sums are exact, by other means than gold's.

This module shares only the list of columns with the one that made gold: figures are added as Python
integers, buckets are found among whole numbers. A row of gold that corrects a sealed window is of
that window's day, as its events are. A column is compared in the groups whose rows of gold all have
it: a backfill gives it to older files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import ceil
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct
from pyspark.sql import SparkSession

from router.lake.reconcile.comparison import (
    NAMED,
    ReconcileCheck,
    Sent,
    hash_groups,
    name_first,
    run_comparison,
    split_rows,
)
from router.lake.reconcile.stream import WarehouseSnapshot
from router.lake.tables.arrow import ARROW
from router.lake.tables.gold_columns import FIRST_FIGURES, HISTOGRAM, SUMMED, EventKind
from router.lake.warehouse import DataFile
from router.lake.warehouse.storage import Storage

# -- Sum for a reconciliation, by other means than those that filled gold: 32-bit limbs, summed
# apart, combined as Python integers.
#
# 1234567890123.000000001  ->  its unscaled 128 bits  ->  four limbs  ->  four int64 sums by group
#                                                     ->  one integer of any size
#
# A limb is below 2^32, so 2^30 of them fit into 64 bits; after that many rows the sums become
# Python integers.


BITS = 32
MAX_SUMMED_LIMBS = 1 << 30  # limbs that int64 can sum
NANOS_PER_UNIT = 10**9
# The greatest whole latency of each bucket: 1.02^i, rounded down, in whole numbers.
_EDGES = np.array(
    [edge for edge in (51**number // 50**number for number in range(2210)) if edge < 2**63],
    np.int64,
)

Group = tuple[Any, ...]


class ExactSums:
    """Sums by group of some columns: int64, or decimals in whole 1e-9. As Python integers, so none
    overflows.
    """

    def __init__(self, group: Sequence[str], figures: Sequence[str]) -> None:
        self._group = list(group)
        self._figures = list(figures)
        self._sums: dict[Group, list[int]] = {}

    def add(self, rows: pa.Table) -> None:
        """Add fewer than 2^30 rows."""
        self.add_limbs(sum_limbs(rows, self._group, self._figures))

    def add_limbs(self, sums: pa.Table) -> None:
        """Add what `sum_limbs` made."""
        groups = zip(*(sums[name].to_pylist() for name in self._group), strict=True)
        figures = zip(*(_combine_limbs(sums, name) for name in self._figures), strict=True)
        for group, added in zip(groups, figures, strict=True):
            limbs = self._sums.get(group)
            self._sums[group] = (
                list(added)
                if limbs is None
                else [limb + more for limb, more in zip(limbs, added, strict=True)]
            )

    def sum_groups(self) -> dict[Group, tuple[int, ...]]:
        return {group: tuple(limbs) for group, limbs in self._sums.items()}


def sum_limbs(rows: pa.Table, group: Sequence[str], figures: Sequence[str]) -> pa.Table:
    """Sum the limbs of fewer than 2^30 rows by group: columns `cost.0`, `cost.32` and so on, which
    int64 holds.
    """
    if len(rows) >= MAX_SUMMED_LIMBS:
        raise ValueError(f"{len(rows)} rows at once: sum fewer than {MAX_SUMMED_LIMBS}")
    columns = {
        f"{name}.{shift}": limb for name in figures for shift, limb in split_limbs(rows[name])
    }
    return _sum_groups(pa.table({**{name: rows[name] for name in group}, **columns}), list(group))


def _combine_limbs(sums: pa.Table, figure: str) -> list[int]:
    limbs = [
        (int(name.rpartition(".")[2]), name)
        for name in sums.column_names
        if name.rpartition(".")[0] == figure
    ]
    columns = [(shift, sums[name].to_pylist()) for shift, name in limbs]
    return [sum(column[row] << shift for shift, column in columns) for row in range(len(sums))]


def sum_exactly(column: pa.Array | pa.ChunkedArray) -> int:
    """Sum a column: decimals in whole 1e-9, int64 as they are."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return sum(
        (pc.sum(limb).as_py() or 0) << shift
        for chunk in chunks
        for shift, limb in _split_array(chunk)
    )


def format_money(nanos: int) -> str:
    """Format whole 1e-9 with nine decimals, whatever the number of digits."""
    whole, rest = divmod(abs(nanos), NANOS_PER_UNIT)
    return f"{'-' if nanos < 0 else ''}{whole}.{rest:09d}"


def find_buckets(latency: pa.ChunkedArray) -> pa.Array:
    """Return the bucket of each latency (ms): the least i with 1.02^i not below it, by whole
    numbers; -1 for no latency.
    """
    numbers = latency.to_numpy()
    return pa.array(np.where(numbers <= 0, -1, np.searchsorted(_EDGES, numbers)), pa.int64())


def split_limbs(column: pa.ChunkedArray) -> list[tuple[int, pa.Array]]:
    """Return each limb with its shift in bits, the lowest first; only the highest can be negative."""
    return _split_array(column.combine_chunks())


def _split_array(array: pa.Array) -> list[tuple[int, pa.Array]]:
    array = array if pa.types.is_decimal128(array.type) else array.cast(pa.int64())
    many = array.type.bit_width // BITS
    words = np.frombuffer(
        array.buffers()[1] or b"", np.uint32, many * len(array), array.offset * many * BITS // 8
    )
    table = words.reshape(-1, many)
    limbs = [table[:, place] for place in range(many - 1)] + [table[:, many - 1].view(np.int32)]
    return [(place * BITS, pa.array(limb.astype(np.int64))) for place, limb in enumerate(limbs)]


def _sum_groups(table: pa.Table, group: list[str]) -> pa.Table:
    names = [name for name in table.column_names if name not in group]
    made = table.group_by(group).aggregate([(name, "sum") for name in names])
    return made.rename_columns(
        [name.removesuffix("_sum") if name not in group else name for name in made.column_names]
    )


# -- Sum silver and compare it with the sums in gold, for each day, tenant, provider, type, status
# and model (minutes: no tenant, no model).


_OF_ALL = ("provider_id", "event_type", "status")
DIMENSIONS = ("tenant_id", *_OF_ALL, "model")
GROUPS = {
    "gold_minute": ("day", *_OF_ALL),
    "gold_hour": ("day", *DIMENSIONS),
    "gold_day": ("day", *DIMENSIONS),
}
ROWS_PER_TASK = 100_000  # of gold's days
HISTOGRAM_BUCKETS = "buckets"
_NAMES = tuple(figure.name for figure in SUMMED)
_LATER = tuple(name for name in _NAMES if name not in FIRST_FIGURES)
# how many rows of a group have not this column
_LACKING = {name: f"lacks_{name}" for name in _LATER}
_FIGURES = (*_NAMES, HISTOGRAM_BUCKETS, *_LACKING.values())
_OF_KIND = ("correlated", "adjustment", "estimated")
_DAY = pa.timestamp("us")

ByGroup = dict[Group, tuple[int, ...]]


class TableSums(Struct, frozen=True):
    """What one task found about one table of gold. Cost in whole 1e-9."""

    groups: int
    events: int
    cost: int
    differ: int
    names: tuple[str, ...]


def check_sums(spark: SparkSession, tables: WarehouseSnapshot) -> Iterator[ReconcileCheck]:
    """Check minutes, hours and days."""
    sources = [(name, file) for name in ("silver", *GROUPS) for file in tables.list_files(name)]
    tasks = max(
        spark.sparkContext.defaultParallelism,
        ceil(sum(file.rows for file in tables.list_files("gold_day")) / ROWS_PER_TASK),
    )
    read = partial(
        read_sums, tables.warehouse.location, tasks, tables.warehouse.removals.list_days()
    )
    parts = run_comparison(spark, sources, read, tasks, compare_sums)
    for name in GROUPS:
        yield _tell(name, [part[name] for part in parts])


def read_sums(
    warehouse: str, tasks: int, dropped: list[str], source: tuple[str, DataFile]
) -> Iterator[Sent]:
    """Sum one file. Silver is summed twice: by tenant, and of all tenants. `dropped`: the days of
    which only gold is left.
    """
    (name, file), storage = source, Storage(warehouse)
    with storage.filesystem.open_input_file(storage.resolve(file.path)) as opened:
        parquet = pq.ParquetFile(opened)
        rows = _select_silver(parquet) if name == "silver" else _select_gold(parquet, name)
    rows = (
        rows.filter(pc.invert(pc.is_in(rows["day"], pa.array(dropped, pa.string()))))
        if dropped
        else rows
    )
    groups = (
        {f"silver of {table}": GROUPS[table] for table in ("gold_minute", "gold_day")}
        if name == "silver"
        else {name: GROUPS[name]}
    )
    for kind, group in groups.items():
        sums = sum_limbs(rows, group, _FIGURES)
        yield from split_rows(
            kind, sums, hash_groups([sums[column].to_pylist() for column in group], tasks)
        )


def compare_sums(_: int, rows: dict[str, list[pa.Table]]) -> dict[str, TableSums]:
    """Compare the groups of one task."""
    added = {
        kind: _add(rows.get(kind, []), group)
        for kind, group in {**GROUPS, **_list_silver()}.items()
    }
    return {
        name: _compare(
            added["silver of gold_minute" if name == "gold_minute" else "silver of gold_day"],
            added[name],
        )
        for name in GROUPS
    }


def _list_silver() -> dict[str, tuple[str, ...]]:
    return {f"silver of {name}": GROUPS[name] for name in ("gold_minute", "gold_day")}


def _select_silver(parquet: pq.ParquetFile) -> pa.Table:
    """Return the events that gold sums, and what each adds to its figures."""
    sources = {figure.source for figure in SUMMED if figure.source is not None}
    rows = _read_present(
        parquet, [*DIMENSIONS, *sorted(sources | {"latency_ms", "timestamp"}), *_OF_KIND]
    )
    rows = rows.filter(pc.fill_null(pc.not_equal(rows["adjustment"], "budget"), True))
    kinds = _find_kinds(rows)
    ones, none = (pa.repeat(pa.scalar(number, pa.int64()), len(rows)) for number in (1, 0))
    figures = {
        figure.name: _keep(ones if figure.source is None else rows[figure.source], kinds[figure.of])
        for figure in SUMMED
    }
    figures |= {
        HISTOGRAM_BUCKETS: _keep(find_buckets(rows["latency_ms"]), kinds["outcomes"]),
        **dict.fromkeys(_LACKING.values(), none),
    }
    return pa.table(
        {
            "day": _name_days(rows["timestamp"]),
            **{name: pc.fill_null(rows[name], "") for name in DIMENSIONS},
            **figures,
        }
    )


def _read_present(parquet: pq.ParquetFile, names: list[str]) -> pa.Table:
    """Read these columns; a file that is older than a column says nothing there."""
    rows = parquet.read([name for name in names if name in parquet.schema_arrow.names])
    for name in set(names) - set(rows.column_names):
        rows = rows.append_column(name, pa.nulls(len(rows), ARROW["silver"].field(name).type))
    return rows


def _find_kinds(rows: pa.Table) -> dict[EventKind, pa.Array]:
    """Return which events are of which kind, by other means than those of the ingest: by whole
    columns of numbers.
    """
    marked, estimated = (
        np.equal(rows[name].to_numpy(zero_copy_only=False), said)
        for name, said in (("correlated", False), ("estimated", True))
    )
    adjusts = rows["adjustment"].is_valid().to_numpy()
    return {
        "outcomes": pa.array(~marked & ~adjusts),
        "estimated": pa.array(~marked & ~adjusts & estimated),
        "money": pa.array(~marked),
        "adjustments": pa.array(adjusts),
        "uncorrelated": pa.array(marked),
    }


def _keep(values: pa.ChunkedArray | pa.Array, mask: pa.Array) -> pa.ChunkedArray | pa.Array:
    """Return the values of a kind; 0 for all others, because limbs are read from the bytes below a
    null.
    """
    return pc.if_else(mask, pc.fill_null(values, 0), pa.scalar(0, values.type))


def _select_gold(parquet: pq.ParquetFile, name: str) -> pa.Table:
    group, there = GROUPS[name][1:], set(parquet.schema_arrow.names)
    rows = parquet.read(
        [
            *group,
            "window_start",
            "corrects_window",
            *(column for column in _NAMES if column in there),
            HISTOGRAM,
        ]
    )
    none = pa.repeat(pa.scalar(0, pa.int64()), len(rows))
    figures = {
        column: pc.fill_null(rows[column], 0) if column in there else none for column in _NAMES
    }
    # A compaction writes rows from before a column into one file with others: there it is null.
    figures |= {
        lacking: rows[column].is_null().cast(pa.int64()) if column in there else pc.add(none, 1)
        for column, lacking in _LACKING.items()
    }
    days = _name_days(pc.coalesce(rows["corrects_window"], rows["window_start"]))
    return pa.table(
        {
            "day": days,
            **{column: rows[column] for column in group},
            **figures,
            HISTOGRAM_BUCKETS: _sum_buckets(rows[HISTOGRAM]),
        }
    )


def _name_days(instants: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.strftime(instants.cast(_DAY), "%Y-%m-%d")


def _sum_buckets(histograms: pa.ChunkedArray) -> pa.Array:
    """Return for each row the sum of its bucket numbers, each as often as it counts."""
    maps = histograms.combine_chunks()
    running = pc.cumulative_sum(pc.multiply(maps.keys.cast(pa.int64()), maps.items))
    running = pa.concat_arrays([pa.array([0], pa.int64()), running])
    return pc.subtract(running.take(maps.offsets[1:]), running.take(maps.offsets[:-1]))


def _add(parts: list[pa.Table], group: tuple[str, ...]) -> ByGroup:
    sums = ExactSums(group, _FIGURES)
    for part in parts:
        sums.add_limbs(part)
    return sums.sum_groups()


def _compare(silver: ByGroup, gold: ByGroup) -> TableSums:
    wrong = sorted(
        group
        for group in silver.keys() | gold.keys()
        if _is_different(silver.get(group), gold.get(group))
    )
    count, cost = (sum(figures[place] for figures in gold.values()) for place in (0, 1))
    return TableSums(
        len(gold),
        count,
        cost,
        len(wrong),
        name_first("/".join(name for name in group if name) for group in wrong),
    )


def _is_different(silver: tuple[int, ...] | None, gold: tuple[int, ...] | None) -> bool:
    if silver is None or gold is None:
        return True
    lacks = dict(zip(_LATER, gold[len(_NAMES) + 1 :], strict=True))
    return any(
        one != other and not lacks.get(name)
        for name, one, other in zip((*_NAMES, HISTOGRAM_BUCKETS), silver, gold, strict=False)
    )


def _tell(name: str, parts: list[TableSums]) -> ReconcileCheck:
    events, groups, differ = (
        sum(getattr(part, figure) for part in parts) for figure in ("events", "groups", "differ")
    )
    cost = format_money(sum(part.cost for part in parts))
    figures = {"groups": groups, "events": events, "cost": cost, "differ": differ}
    names = sorted(group for part in parts for group in part.names)[:NAMED]
    return ReconcileCheck(
        f"silver = {name}",
        not differ,
        f"{events} events, {cost}, in {groups} groups",
        figures,
        names,
    )
