"""Read a report from the warehouse's gold: choose the files, sum them, and turn the sums into
lines.

A file holds rows of one day, so files of days outside the query are not opened. How percentiles are
read from the histogram of every row stands first.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from router.lake.report.lines import PERCENTILES, UsageQuery, UsageReport, make_line
from router.lake.report.partials import (
    DICTIONARIES,
    PARTIAL_COLUMNS,
    ReportPart,
    merge_parts,
    sum_day,
)
from router.lake.tables.arrow import ARROW
from router.lake.warehouse import DataFile, Warehouse

# -- The report.

TABLE = "gold_day"
CONCURRENT_DAYS = 4  # days; pyarrow releases the interpreter's lock while it works

MERGED_PARTS = 8  # parts that are merged at once
NO_LINES = pa.table({})

Group = tuple[str, ...]

_TEXT = pa.dictionary(pa.int32(), pa.string())
_NO_ROWS = pa.schema(
    [
        (name, _TEXT if name in DICTIONARIES else ARROW[TABLE].field(name).type)
        for name in PARTIAL_COLUMNS
    ]
).empty_table()
DayProgress = Callable[[int, int], None]


def read_report(
    warehouse: Warehouse,
    query: UsageQuery,
    as_of_cut: int | None = None,
    on_day: DayProgress = lambda _done, _total: None,
    currency: str | None = None,
) -> UsageReport:
    """Read a report by pyarrow. `on_day` gets (days read, days in all)."""
    return make_report(read_parts(warehouse, query, as_of_cut, on_day), query.by, currency)


def read_parts(
    warehouse: Warehouse,
    query: UsageQuery,
    as_of_cut: int | None = None,
    on_day: DayProgress = lambda _done, _total: None,
) -> Iterator[ReportPart]:
    """Yield the parts only, one for each day, in order; a few days are read ahead."""
    days = _group_by_day(
        file
        for file in warehouse.files(TABLE, as_of_cut)
        if not query.days or file.day in query.days
    )
    waiting, due = deque[Future[ReportPart]](), iter(days)
    with ThreadPoolExecutor(CONCURRENT_DAYS) as pool:
        for number in range(len(days)):
            while len(waiting) < CONCURRENT_DAYS and (day := next(due, None)) is not None:
                waiting.append(pool.submit(_read_day, warehouse, days[day], query, day))
            yield waiting.popleft().result()
            on_day(number + 1, len(days))


def _read_day(
    warehouse: Warehouse, files: Iterable[DataFile], query: UsageQuery, day: str
) -> ReportPart:
    return sum_day(_read_rows(warehouse, files), query, day)


def make_report(parts: Iterable[ReportPart], by: Group, currency: str | None = None) -> UsageReport:
    """Make a report from parts that pyarrow or Spark read, grouped by the columns they were read
    by, or fewer.

    Parts are of different days: with the day in the group, each is finished by itself, and its
    buckets are let go.
    """
    pending: list[ReportPart] = []
    finished: list[pa.Table] = []
    totals: ReportPart | None = None
    for part in parts:
        if len(part.sums):
            totals = merge_parts(
                [*([] if totals is None else [totals]), merge_parts([part], ())], ()
            )
            pending.append(merge_parts([part], by))
            if "day" in by:
                finished.append(_finish_part(pending.pop(), by))
            elif len(pending) >= MERGED_PARTS:
                pending = [merge_parts(pending, by)]
    if totals is None:
        return UsageReport(by, NO_LINES, None, currency)
    finished += [_finish_part(merge_parts(pending, by), by)] if pending else []
    rows = pa.concat_tables(finished)
    rows = rows.sort_by([(name, "ascending") for name in by]) if by else rows
    return UsageReport(by, rows, make_line(_finish_part(totals, ()).to_pylist()[0], ()), currency)


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
    with pq.ParquetFile(
        storage.resolve(file.path),
        filesystem=storage.filesystem,
        read_dictionary=list(DICTIONARIES),
    ) as parquet:
        return parquet.read(list(PARTIAL_COLUMNS), use_threads=False)


def _finish_part(part: ReportPart, by: Group) -> pa.Table:
    """Return a row for each group: its sums, and its percentiles instead of its buckets. Both are
    sorted alike, so nothing is joined.
    """
    order = [(name, "ascending") for name in by]
    sums, buckets = (
        (part.sums.sort_by(order), part.buckets.sort_by([*order, ("bucket", "ascending")]))
        if by
        else _sort_whole(part)
    )
    sizes = _count_buckets(sums, buckets, by)
    percentiles = compute_percentiles(
        buckets["bucket"].to_numpy().astype(np.int64), buckets["n"].to_numpy(), sizes, PERCENTILES
    )
    least, most = (
        sums[name].to_numpy().astype(np.float64) for name in ("latency_min", "latency_max")
    )
    for name, values in percentiles.items():
        clamped = np.round(
            np.clip(np.where(np.isnan(values), least, values), least, most), PERCENTILE_DECIMALS
        )
        # nan, where there is no outcome, is null
        sums = sums.append_column(name, pa.array(clamped, from_pandas=True))
    return sums


def _sort_whole(part: ReportPart) -> tuple[pa.Table, pa.Table]:
    return part.sums, part.buckets.sort_by("bucket")


def _count_buckets(sums: pa.Table, buckets: pa.Table, by: Group) -> npt.NDArray[np.int64]:
    """Return how many buckets each group has, in the order of the sums."""
    if not by:
        return np.array([len(buckets)], np.int64)
    counted = buckets.group_by(list(by)).aggregate([([], "count_all")])
    if len(counted) < len(sums):
        counted = sums.select(list(by)).join(counted, list(by), join_type="left outer")
    sizes: npt.NDArray[np.int64] = pc.fill_null(
        counted.sort_by([(name, "ascending") for name in by])["count_all"], 0
    ).to_numpy()
    return sizes


# -- Percentiles from the log histogram of every gold row (γ = 1.02): merged by adding, off by
# at most 1 %.
#
# Bucket i holds latencies above γ^(i-1) and up to γ^i milliseconds, -1 those of 0
# (`tables.gold` writes them). A bucket is read as 2γ^i/(γ+1), which is within (γ-1)/(γ+1) =
# 0.99 % of every latency in it, and is clamped to the smallest and the largest latency of the
# group, which are known exactly.

GAMMA = 1.02
BUCKET_OF_ZERO = -1
PERCENTILE_DECIMALS = 3

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def compute_percentiles(
    buckets: Integers, counts: Integers, sizes: Integers, shares: Mapping[str, float]
) -> dict[str, Floats]:
    """Compute percentiles by nearest rank, milliseconds, for each group.

    `buckets`, `counts`: of all groups one after the other, buckets rising in each. `sizes`: how
    many buckets each group has; 0: no percentile, nan.
    """
    running = np.cumsum(counts)
    ends = np.cumsum(sizes)
    before = np.concatenate([[0], running])[ends - sizes]
    totals = np.concatenate([[0], running])[ends] - before
    percentiles = {}
    for name, share in shares.items():
        ranks = np.maximum(1, np.ceil(totals * share)).astype(np.int64)
        places = np.minimum(np.searchsorted(running, before + ranks), max(len(buckets) - 1, 0))
        percentiles[name] = (
            np.where(totals > 0, read_buckets(buckets[places]), np.nan)
            if len(buckets)
            else np.full(len(sizes), np.nan)
        )
    return percentiles


def read_buckets(buckets: Integers) -> Floats:
    """Return the latencies that buckets are read as, milliseconds."""
    values: Floats = np.where(
        buckets == BUCKET_OF_ZERO,
        0.0,
        2 * np.power(GAMMA, buckets.astype(np.float64)) / (GAMMA + 1),
    )
    return values
