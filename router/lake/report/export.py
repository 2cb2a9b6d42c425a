"""Write the sums of a period into a file, one day at a time, as of one cut.

    2026-10      2026-10-05      2026-10-01..2026-10-15      a period: a month, a day, days (both
                                 inclusive); UTC

Amounts keep nine decimals. In CSV, no cell is a formula for a spreadsheet (`names`).
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from msgspec import Struct

from router.core.errors import Misconfigured
from router.core.legible import escape_cell
from router.core.whole_files import replace_file
from router.lake.files import read_columns
from router.lake.report.focus import SCHEMA as FOCUS
from router.lake.report.focus import make_charges
from router.lake.tables.arrow import ARROW
from router.lake.tables.gold import INSTANT, sum_figures
from router.lake.tables.gold_columns import GOLD_COLUMNS
from router.lake.tables.gold_tables import GOLD_DIMENSIONS
from router.lake.warehouse import DataFile, Warehouse

TABLE = "gold_day"
MAX_DAYS = 3660
KEYS = ("window_start", *GOLD_DIMENSIONS, "corrects_window")
FIGURE_NAMES = tuple(column.name for column in GOLD_COLUMNS)
PLAIN = pa.schema(
    [
        *(pa.field(name, ARROW[TABLE].field(name).type) for name in (*KEYS, *FIGURE_NAMES)),
        pa.field("currency", pa.string()),
    ]
)
ExportFormat = Literal["focus", "parquet", "csv"]
_PERIOD = re.compile(r"(\d{4}-\d{2})|(\d{4}-\d{2}-\d{2})(?:\.\.(\d{4}-\d{2}-\d{2}))?", re.ASCII)


class Period(Struct, frozen=True):
    """Days, both inclusive, UTC."""

    first: date
    last: date

    def has(self, day: str | None) -> bool:
        return day is not None and str(self.first) <= day <= str(self.last)


class Export(Struct, frozen=True, kw_only=True):
    """What was written."""

    rows: int
    cut: int
    days: int


def parse_period(text: str) -> Period:
    """Raises Misconfigured."""
    found = _PERIOD.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        month, first, last = found.groups()
        period = (
            _read_month(month)
            if month
            else Period(date.fromisoformat(first), date.fromisoformat(last or first))
        )
    except ValueError as exc:
        raise Misconfigured(
            "--period",
            f"{text!r}: a month as 2026-10, a day as 2026-10-05, or days as 2026-10-01..2026-10-15",
        ) from exc
    if not 0 <= (period.last - period.first).days < MAX_DAYS:
        raise Misconfigured("--period", f"{text}: from 1 to {MAX_DAYS} days, the first one first")
    return period


def export(
    warehouse: Warehouse,
    period: Period,
    form: ExportFormat,
    output: Path,
    *,
    currency: str,
    as_of_cut: int | None = None,
) -> Export:
    """Write the file, which appears when it is whole. `focus` is CSV, or Parquet if the file's name
    ends so.

    Raises Misconfigured, FileNotWritten.
    """
    cut = warehouse.cut(as_of_cut)
    if cut is None:
        raise Misconfigured(
            "--as-of-cut", f"there is no cut {as_of_cut}: the newest is {warehouse.head()}"
        )
    files = [file for file in warehouse.files(TABLE, cut.number) if period.has(file.day)]
    days, rows = sorted({file.day or "" for file in files}), 0
    schema = FOCUS if form == "focus" else PLAIN
    with _open_output(
        output,
        schema,
        is_parquet=form == "parquet" or (form == "focus" and output.suffix == ".parquet"),
    ) as write:
        for day in days:
            sums = _sum_day(warehouse, [file for file in files if file.day == day])
            made = (
                make_charges(sums, currency) if form == "focus" else _add_currency(sums, currency)
            )
            write(made)
            rows += len(made)
    return Export(rows=rows, cut=cut.number, days=len(days))


def _read_month(text: str) -> Period:
    year, month = map(int, text.split("-"))
    first = date(year, month, 1)
    return Period(first, first.replace(day=monthrange(year, month)[1]))


def _sum_day(warehouse: Warehouse, files: list[DataFile]) -> pa.Table:
    rows = read_columns(warehouse, TABLE, files, (*KEYS, *FIGURE_NAMES))
    return sum_figures(rows, KEYS, "day").sort_by([(key, "ascending") for key in KEYS])


def _add_currency(sums: pa.Table, currency: str) -> pa.Table:
    whole = sums.append_column("currency", pa.repeat(pa.scalar(currency), len(sums)))
    return whole.select(PLAIN.names).cast(PLAIN)


@contextmanager
def _open_output(
    output: Path, schema: pa.Schema, *, is_parquet: bool
) -> Iterator[Callable[[pa.Table], None]]:
    """Yield the function that writes rows. The file takes its place when all of them are written.
    Raises FileNotWritten.
    """
    with replace_file(output) as file:
        if is_parquet:
            with pq.ParquetWriter(file, schema, compression="zstd") as parquet:
                yield parquet.write_table
        else:
            text = pa.schema(
                [pa.field(field.name, _choose_text(field.type), field.nullable) for field in schema]
            )
            with pa.csv.CSVWriter(file, text) as lines:
                yield lambda rows: lines.write_table(_format_rows(rows, text))


def _choose_text(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_timestamp(kind) else kind


def _format_rows(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    return pa.table({name: _format_column(rows[name]) for name in schema.names}, schema=schema)


def _format_column(column: pa.ChunkedArray) -> Any:
    """Return instants as ISO 8601, and texts that no spreadsheet takes for a formula."""
    if column.type == INSTANT:
        return pc.strftime(
            pc.floor_temporal(column, unit="second").cast(pa.timestamp("s", "UTC")),
            format="%Y-%m-%dT%H:%M:%SZ",
        )
    if not pa.types.is_string(column.type):
        return column
    encoded = column.combine_chunks().dictionary_encode()
    return pa.array(
        [escape_cell(text) for text in encoded.dictionary.to_pylist()], pa.string()
    ).take(encoded.indices)
