"""Write Arrow rows into a table's directory, one Parquet file for each day (of silver: for each day
and bucket), and describe the files.

    TABLE/day=2026-11-20/RUN-0.parquet

RUN is a name of its own for each task, so the files of a dead task disturb nothing: no commit names
them, and `vacuum` deletes them. At most OPEN_AT_ONCE files are open, whatever days the rows have:
the writer closes the file that it used longest ago, and starts a further one if that day comes
again.
"""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from router.lake.tables.arrow import ARROW
from router.lake.tables.late import floor_to_days
from router.lake.tables.schemas import DAY_OF
from router.lake.warehouse.commit import DataFile
from router.lake.warehouse.storage import Storage

COMPRESSION = "zstd"
OPEN_AT_ONCE = 32  # files of a table, in a task
_FEW_VALUES = (
    "stream",
    "subject",
    "tenant_id",
    "provider_id",
    "event_type",
    "status",
    "model",
    "reason",
    "headers.key_value.key",
)


def write_days(
    rows: pa.Table, storage: Storage, table: str, run: str, bucket: int | None = None
) -> list[DataFile]:
    """Write all rows at once, and close the files."""
    days = DailyWriter(storage, table, run, bucket)
    days.add(rows)
    return days.close()


class DailyWriter:
    """The open files of one task and table, until `close`."""

    def __init__(self, storage: Storage, table: str, run: str, bucket: int | None = None) -> None:
        self._storage = storage
        self._table = table
        self._run = run if bucket is None else f"{run}-{bucket}"
        self._bucket = bucket
        self._open: dict[date, DayFile] = {}  # least recently used first
        self._closed: list[DataFile] = []

    def add(self, rows: pa.Table, days: pa.ChunkedArray | None = None) -> None:
        """Write the rows, one row group for each day: of `days`, or of the table's own column."""
        days = floor_to_days(rows[DAY_OF[self._table]]) if days is None else days
        rows = rows.select(ARROW[self._table].names).cast(ARROW[self._table])
        present = pc.unique(days).to_pylist()
        for day in sorted(present):
            self._open_day(day).write(
                rows if len(present) == 1 else rows.filter(pc.equal(days, day))
            )

    def close(self) -> list[DataFile]:
        while self._open:
            self._close_oldest()
        return sorted(self._closed, key=lambda file: file.path)

    def _open_day(self, day: date) -> DayFile:
        file = self._open.pop(day, None)
        if file is None:
            if len(self._open) >= OPEN_AT_ONCE:
                self._close_oldest()
            file = DayFile(
                self._storage,
                self._name_directory(day),
                f"{self._run}-{len(self._closed) + len(self._open)}",
                self._table,
            )
        self._open[day] = file
        return file

    def _name_directory(self, day: date) -> str:
        return f"{self._table}/day={day}" + (
            "" if self._bucket is None else f"/bucket={self._bucket}"
        )

    def _close_oldest(self) -> None:
        day = next(iter(self._open))
        self._closed.append(self._open.pop(day).close(day, self._bucket))


class DayFile:
    """One open Parquet file."""

    def __init__(self, storage: Storage, directory: str, name: str, table: str) -> None:
        self._path = f"{directory}/{name}.parquet"
        storage.make_directory(directory)
        self._stream = storage.filesystem.open_output_stream(storage.resolve(self._path))
        self._writer = pq.ParquetWriter(
            self._stream,
            ARROW[table],
            compression=COMPRESSION,
            use_dictionary=_choose_dictionaries(ARROW[table]),
        )
        self._rows = 0
        self._seqs: list[int] = []

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)
        self._rows += len(rows)
        if "seq" in rows.column_names:
            ends = pc.min_max(rows["seq"])
            self._seqs += [ends["min"].as_py(), ends["max"].as_py()]

    def close(self, day: date, bucket: int | None) -> DataFile:
        self._writer.close()
        size = self._stream.tell()
        self._stream.close()
        least, most = min(self._seqs, default=None), max(self._seqs, default=None)
        return DataFile(
            path=self._path,
            rows=self._rows,
            bytes=size,
            min_seq=least,
            max_seq=most,
            day=str(day),
            bucket=bucket,
        )


def _choose_dictionaries(schema: pa.Schema) -> list[str]:
    """Return the columns with few different values. A dictionary of ids or bodies would cost more
    than it saves.
    """
    return [name for name in _FEW_VALUES if name.partition(".")[0] in schema.names]
