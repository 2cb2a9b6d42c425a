"""Read a report from the warehouse's gold: choose the files, sum them, and turn the sums into lines.

A file holds rows of one day, so files of days outside the query are not opened.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from router.lake.report.lines import PERCENTILES, ReportLine, UsageQuery, UsageReport
from router.lake.report.log_histogram import compute_percentiles
from router.lake.report.partials import DICTIONARIES, PARTIAL_COLUMNS, ReportPart, merge_parts, sum_day
from router.lake.tables.arrow import ARROW
from router.lake.tables.gold_columns import GOLD_COLUMNS, MONEY, GoldColumn
from router.lake.warehouse import DataFile, Warehouse

TABLE = "gold_day"
CONCURRENT_DAYS = 4  # days; pyarrow releases the interpreter's lock while it works

Group = tuple[str, ...]

_TEXT = pa.dictionary(pa.int32(), pa.string())
_NO_ROWS = pa.schema([(name, _TEXT if name in DICTIONARIES else ARROW[TABLE].field(name).type) for name in PARTIAL_COLUMNS]).empty_table()
DayProgress = Callable[[int, int], None]


def read_report(
    warehouse: Warehouse, query: UsageQuery, as_of_cut: int | None = None, on_day: DayProgress = lambda _done, _total: None
) -> UsageReport:
    """Read a report by pyarrow. `on_day` gets (days read, days in all)."""
    return make_report(read_parts(warehouse, query, as_of_cut, on_day), query.by)


def read_parts(
    warehouse: Warehouse, query: UsageQuery, as_of_cut: int | None = None, on_day: DayProgress = lambda _done, _total: None
) -> list[ReportPart]:
    """Read the parts only, so that several reports can be made of them."""
    days = _group_by_day(file for file in warehouse.files(TABLE, as_of_cut) if not query.days or file.day in query.days)
    parts: list[ReportPart] = []
    with ThreadPoolExecutor(CONCURRENT_DAYS) as pool:
        for part in pool.map(lambda day: sum_day(_read_rows(warehouse, days[day]), query, day), days):
            parts.append(part)
            on_day(len(parts), len(days))
    return parts


def make_report(parts: Sequence[ReportPart], by: Group) -> UsageReport:
    """Make a report from parts that pyarrow or Spark read, grouped by the columns they were read by, or fewer."""
    if not any(len(part.sums) for part in parts):
        return UsageReport(by, (), None)
    whole = merge_parts(parts, by)
    return UsageReport(by, _make_lines(whole, by), _make_lines(merge_parts([whole], ()), ())[0])


def _group_by_day(files: Iterable[DataFile]) -> dict[str, list[DataFile]]:
    days: defaultdict[str, list[DataFile]] = defaultdict(list)
    for file in files:
        days[file.day or ""].append(file)
    return dict(sorted(days.items()))


def _read_rows(warehouse: Warehouse, files: Iterable[DataFile]) -> pa.Table:
    """Read one day's files. A file that is older than a column gives null there."""
    rows = [*(_read_file(warehouse, file) for file in files), _NO_ROWS]
    return pa.concat_tables(rows, promote_options="default").select(list(PARTIAL_COLUMNS))


def _read_file(warehouse: Warehouse, file: DataFile) -> pa.Table:
    storage = warehouse.storage
    with pq.ParquetFile(storage.resolve(file.path), filesystem=storage.filesystem, read_dictionary=list(DICTIONARIES)) as parquet:
        return parquet.read(list(PARTIAL_COLUMNS), use_threads=False)


def _make_lines(part: ReportPart, by: Group) -> list[ReportLine]:
    histograms: defaultdict[Group, list[tuple[int, int]]] = defaultdict(list)
    columns = [part.buckets[name].to_pylist() for name in (*by, "bucket", "n")]
    for *group, bucket, count in zip(*columns, strict=True):
        histograms[tuple(group)].append((bucket, count))
    rows = sorted(part.sums.to_pylist(), key=lambda row: [row[name] for name in by])
    return [_make_line(row, by, histograms[tuple(row[name] for name in by)]) for row in rows]


def _make_line(row: Mapping[str, Any], by: Group, buckets: list[tuple[int, int]]) -> ReportLine:
    least, most = row["latency_min"], row["latency_max"]
    found = compute_percentiles(buckets, list(PERCENTILES.values()), least, most)
    return ReportLine(
        group={name: row[name] for name in by},
        failed=int(row["failed"]),
        figures={column.label: _read_figure(row[column.name], column) for column in GOLD_COLUMNS},
        percentiles=dict(zip(PERCENTILES, (round(value, 3) for value in found), strict=True)),
    )


def _read_figure(value: Any, column: GoldColumn) -> int | Decimal:
    """Return 0 for null: no file of the group has the column."""
    number = Decimal(value or 0)
    return number if column.kind == MONEY else int(number)
