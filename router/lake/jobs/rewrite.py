"""Write a file again without some of its rows, one row group at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from router.lake.jobs.daily_writer import DailyWriter
from router.lake.tables.arrow import ARROW
from router.lake.warehouse import DataFile
from router.lake.warehouse.storage import Storage

FindRows = Callable[[pa.Table], pa.ChunkedArray]  # for each row: whether it goes


def read_rows(storage: Storage, table: str, file: DataFile, names: Sequence[str]) -> pa.Table:
    """Read columns of one file; null where the file is older than a column."""
    with storage.filesystem.open_input_file(storage.resolve(file.path)) as source:
        parquet = pq.ParquetFile(source)
        return _complete(
            parquet.read([name for name in names if name in parquet.schema_arrow.names]),
            table,
            names,
        )


def rewrite_file(
    storage: Storage, table: str, file: DataFile, run: str, find: FindRows
) -> list[DataFile] | None:
    """Return the files in its place: none if every row goes. None: no row goes, and nothing was
    written.
    """
    written, removed = DailyWriter(storage, table, run, file.bucket), 0
    with storage.filesystem.open_input_file(storage.resolve(file.path)) as source:
        parquet = pq.ParquetFile(source)
        for number in range(parquet.num_row_groups):
            rows = _complete(parquet.read_row_group(number), table, ARROW[table].names)
            goes = find(rows)
            removed += pc.sum(goes).as_py() or 0
            kept = rows.filter(pc.invert(goes))
            if len(kept):
                written.add(kept, _repeat_day(file, len(kept)))
    files = written.close()
    return files if removed else None


def _complete(rows: pa.Table, table: str, names: Sequence[str]) -> pa.Table:
    for name in names:
        if name not in rows.column_names:
            rows = rows.append_column(name, pa.nulls(len(rows), ARROW[table].field(name).type))
    return rows.select(list(names))


def _repeat_day(file: DataFile, count: int) -> pa.ChunkedArray:
    return pa.chunked_array([pa.repeat(pa.scalar(date.fromisoformat(file.day or "")), count)])
