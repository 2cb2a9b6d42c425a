"""Sum gold files by pyarrow, without a JVM: one day at a time, so memory follows a day's groups and
not the events.

    a day's files ──> filter ──> a code for each row's group ──> sums by code, histogram by (code, bucket)     a ReportPart
    Parts of all days, one below the other ──> the same sums once more

Strings are read as dictionaries and a group's code is made of their indices, so no text is compared
for each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from router.core.errors import Misconfigured
from router.lake.report.lines import CORRECTIONS, FAILED_STATUSES, UsageQuery
from router.lake.tables.gold import widen
from router.lake.tables.gold_columns import FIGURES, FOLDS

SUMS = {**FOLDS, "failed": "sum", **dict.fromkeys(CORRECTIONS, "sum")}
DICTIONARIES = ("tenant_id", "provider_id", "event_type", "status", "model")
MAX_CODES = 2**63 - 1  # groups of a day
PARTIAL_COLUMNS = (*DICTIONARIES, *FIGURES, "corrects_window")


class ReportPart(Struct, frozen=True):
    """Sums and histograms of one or more days.

    `sums`: a row for each group, with figures so wide that no sum overflows.
    `buckets`: a row for each group and bucket of its histogram (bucket, n).
    """

    sums: pa.Table
    buckets: pa.Table


def sum_day(rows: pa.Table, query: UsageQuery, day: str) -> ReportPart:
    """Sum one day's rows by group."""
    rows = _filter_rows(rows.unify_dictionaries().combine_chunks(), query)
    rows = rows.append_column(
        "failed",
        pc.if_else(
            pc.is_in(_cast_to_text(rows["status"]), pa.array(FAILED_STATUSES)), rows["count"], 0
        ),
    )
    is_correction = pc.is_valid(rows["corrects_window"])
    for name, of in CORRECTIONS.items():
        rows = rows.append_column(
            name, pc.if_else(is_correction, rows[of], pa.scalar(0, rows[of].type))
        )
    columns = [
        _encode_dictionary(rows[name]) if name != "day" else _repeat_text(day, len(rows))
        for name in query.by
    ]
    code = _encode_groups(columns, len(rows))
    summed = (
        widen(rows.select(list(SUMS)))
        .append_column("code", code)
        .group_by("code")
        .aggregate(list(SUMS.items()))
    )
    buckets = (
        _unfold_buckets(rows["histogram"], code)
        .group_by(["code", "bucket"])
        .aggregate([("n", "sum")])
    )
    return ReportPart(
        _decode_groups(_drop_suffixes(summed), columns, query),
        _decode_groups(_drop_suffixes(buckets), columns, query),
    )


def merge_parts(parts: Sequence[ReportPart], by: Sequence[str]) -> ReportPart:
    """Merge the parts of many days, grouped by the same columns or fewer."""
    sums = (
        pa.concat_tables([widen(part.sums) for part in parts])
        .group_by(list(by))
        .aggregate(list(SUMS.items()))
    )
    buckets = (
        pa.concat_tables([part.buckets for part in parts])
        .group_by([*by, "bucket"])
        .aggregate([("n", "sum")])
    )
    return ReportPart(_drop_suffixes(sums), _drop_suffixes(buckets))


def _filter_rows(rows: pa.Table, query: UsageQuery) -> pa.Table:
    for name, wanted in (("tenant_id", query.tenants), ("provider_id", query.providers)):
        if wanted:
            rows = rows.filter(pc.is_in(_cast_to_text(rows[name]), pa.array(wanted)))
    return rows


def _encode_groups(columns: Sequence[pa.DictionaryArray], count: int) -> pa.Array:
    """Return one number for each row: its group, in mixed radix over the columns' dictionaries.
    Raises Misconfigured.
    """
    if prod(len(column.dictionary) for column in columns) > MAX_CODES:
        # Arrow's integers wrap without an error, and one tenant's sums would be added to another's.
        raise Misconfigured(
            "--by",
            "a day has more names than a report can group by all of these columns: choose fewer",
        )
    code = pa.repeat(pa.scalar(0, pa.int64()), count)
    for column in columns:
        code = pc.add(pc.multiply(code, len(column.dictionary)), column.indices.cast(pa.int64()))
    return code


def _decode_groups(
    table: pa.Table, columns: Sequence[pa.DictionaryArray], query: UsageQuery
) -> pa.Table:
    """Split the code into the columns' values again, last column first."""
    code = table["code"].combine_chunks()
    table = table.drop_columns("code")
    for name, column in reversed(list(zip(query.by, columns, strict=True))):
        rest = pc.divide(code, size := max(1, len(column.dictionary)))
        index = pc.subtract(code, pc.multiply(rest, size))
        table, code = table.append_column(name, column.dictionary.take(index)), rest
    return table


def _unfold_buckets(histograms: pa.ChunkedArray, code: pa.Array) -> pa.Table:
    """Return every entry of every row's map, with the code of its row."""
    maps = histograms.combine_chunks()
    keys, counts = (
        pa.ListArray.from_arrays(maps.offsets, values) for values in (maps.keys, maps.items)
    )
    names = {
        "code": code.take(pc.list_parent_indices(keys)),
        "bucket": pc.list_flatten(keys),
        "n": pc.list_flatten(counts),
    }
    return pa.table(names)


def _encode_dictionary(column: pa.ChunkedArray) -> pa.DictionaryArray:
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    return encoded.unify_dictionaries().combine_chunks()


def _cast_to_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.string())


def _repeat_text(text: str, count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(
        pa.repeat(pa.scalar(0, pa.int32()), count), pa.array([text])
    )


def _drop_suffixes(table: pa.Table) -> pa.Table:
    """Remove the suffix of the aggregation: `cost_sum` is `cost` again."""
    ends = ("_sum", "_min", "_max")
    plain = {f"{name}{end}": name for name in (*SUMS, "n") for end in ends}
    return table.rename_columns([plain.get(name, name) for name in table.column_names])
