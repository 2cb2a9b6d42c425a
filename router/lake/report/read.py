"""Read a report from the warehouse's gold: choose the files, sum them, and turn the sums into lines.

A file holds rows of one day, so files of days outside the query are not opened.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from router.lake.report.lines import PERCENTILES, Line, Query, Report
from router.lake.report.partials import COLUMNS, DICTIONARIES, Part, merged, part_of
from router.lake.report.sketch import percentiles
from router.lake.warehouse import File, Warehouse

TABLE = "gold_day"
AT_ONCE = 4  # days; pyarrow releases the interpreter's lock while it works

Group = tuple[str, ...]
Told = Callable[[int, int], None]


def read_report(warehouse: Warehouse, query: Query, as_of_commit: int | None = None, told: Told = lambda _done, _total: None) -> Report:
    """Read a report by pyarrow. `told` gets (days read, days in all)."""
    return report_of(read_parts(warehouse, query, as_of_commit, told), query.by)


def read_parts(warehouse: Warehouse, query: Query, as_of_commit: int | None = None, told: Told = lambda _done, _total: None) -> list[Part]:
    """Read the parts only, so that several reports can be made of them."""
    days = _by_day(file for file in warehouse.files(TABLE, as_of_commit) if not query.days or file.day in query.days)
    parts: list[Part] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for part in pool.map(lambda day: part_of(_rows(warehouse, days[day]), query, day), days):
            parts.append(part)
            told(len(parts), len(days))
    return parts


def report_of(parts: Sequence[Part], by: Group) -> Report:
    """Make a report from parts that pyarrow or Spark read, grouped by the columns they were read by, or fewer."""
    if not any(len(part.sums) for part in parts):
        return Report(by, (), None)
    whole = merged(parts, by)
    return Report(by, _lines(whole, by), _lines(merged([whole], ()), ())[0])


def _by_day(files: Iterable[File]) -> dict[str, list[File]]:
    days: defaultdict[str, list[File]] = defaultdict(list)
    for file in files:
        days[file.day or ""].append(file)
    return dict(sorted(days.items()))


def _rows(warehouse: Warehouse, files: Iterable[File]) -> pa.Table:
    return pa.concat_tables([_read(warehouse, file) for file in files])


def _read(warehouse: Warehouse, file: File) -> pa.Table:
    storage = warehouse.storage
    with pq.ParquetFile(storage.inside(file.path), filesystem=storage.filesystem, read_dictionary=list(DICTIONARIES)) as parquet:
        return parquet.read(list(COLUMNS), use_threads=False)


def _lines(part: Part, by: Group) -> list[Line]:
    histograms: defaultdict[Group, list[tuple[int, int]]] = defaultdict(list)
    columns = [part.buckets[name].to_pylist() for name in (*by, "bucket", "n")]
    for *group, bucket, count in zip(*columns, strict=True):
        histograms[tuple(group)].append((bucket, count))
    rows = sorted(part.sums.to_pylist(), key=lambda row: [row[name] for name in by])
    return [_line(row, by, histograms[tuple(row[name] for name in by)]) for row in rows]


def _line(row: Mapping[str, Any], by: Group, buckets: list[tuple[int, int]]) -> Line:
    least, most = row["latency_min"], row["latency_max"]
    found = percentiles(buckets, list(PERCENTILES.values()), least, most)
    return Line(
        group={name: row[name] for name in by},
        count=int(row["count"]),
        failed=int(row["failed"]),
        cost=row["cost"],
        latency_sum_ms=int(row["latency_sum"]),
        latency_min_ms=least,
        latency_max_ms=most,
        percentiles=dict(zip(PERCENTILES, (round(value, 3) for value in found), strict=True)),
    )
