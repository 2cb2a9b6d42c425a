"""Write Arrow rows into a job's own directory of a table, one Parquet file for each day, and describe the files.

    TABLE/DIRECTORY/day=2026-11-20/part-0.parquet

Each attempt writes into a directory of its own, so the files of a dead attempt never disturb the next one: no commit names
them, and `compact.sweep` deletes them.

At most OPEN_AT_ONCE files are open, whatever days the rows have: the writer closes the file that it used longest ago, and starts
a further part if that day comes again.
"""

from __future__ import annotations

from collections import Counter
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from router.lake.tables.arrow import ARROW
from router.lake.tables.late import floor_to_days
from router.lake.tables.schemas import DAY_OF
from router.lake.warehouse import DataFile, Warehouse

COMPRESSION = "zstd"
OPEN_AT_ONCE = 32  # files of a table, in a task
_FEW_VALUES = ("stream", "subject", "tenant_id", "provider_id", "event_type", "status", "reason", "headers.key_value.key")


def write_days(rows: pa.Table, warehouse: Warehouse, table: str, directory: str) -> list[DataFile]:
    """Write all rows at once, and close the files."""
    days = DailyWriter(warehouse, table, directory)
    days.add(rows)
    return days.close()


class DailyWriter:
    """The open files of one directory, until `close`."""

    def __init__(self, warehouse: Warehouse, table: str, directory: str) -> None:
        self._warehouse = warehouse
        self._table = table
        self._home = f"{table}/{directory}"
        self._open: dict[date, DayFile] = {}  # least recently used first
        self._closed: list[DataFile] = []
        self._parts: Counter[date] = Counter()

    def add(self, rows: pa.Table) -> None:
        """Write the rows, one row group for each day."""
        rows = rows.select(ARROW[self._table].names).cast(ARROW[self._table])
        days = floor_to_days(rows[DAY_OF[self._table]])
        present = pc.unique(days).to_pylist()
        for day in sorted(present):
            self._open_day(day).write(rows if len(present) == 1 else rows.filter(pc.equal(days, day)))

    def close(self) -> list[DataFile]:
        while self._open:
            self._close_oldest()
        return sorted(self._closed, key=lambda file: file.path)

    def _open_day(self, day: date) -> DayFile:
        file = self._open.pop(day, None)
        if file is None:
            if len(self._open) >= OPEN_AT_ONCE:
                self._close_oldest()
            file = DayFile(self._warehouse, f"{self._home}/day={day}", ARROW[self._table], part=self._parts[day])
            self._parts[day] += 1
        self._open[day] = file
        return file

    def _close_oldest(self) -> None:
        self._closed.append(self._open.pop(next(iter(self._open))).close())


class DayFile:
    def __init__(self, warehouse: Warehouse, home: str, schema: pa.Schema, part: int = 0) -> None:
        self._path = f"{home}/part-{part}.parquet"
        self._day = home.rpartition("day=")[2]
        storage = warehouse.storage
        storage.filesystem.create_dir(storage.resolve(home), recursive=True)
        self._stream = storage.filesystem.open_output_stream(storage.resolve(self._path))
        self._writer = pq.ParquetWriter(self._stream, schema, compression=COMPRESSION, use_dictionary=_choose_dictionaries(schema))
        self._rows = 0
        self._seqs: list[int] = []

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)
        self._rows += len(rows)
        if "seq" in rows.column_names:
            ends = pc.min_max(rows["seq"])
            self._seqs += [ends["min"].as_py(), ends["max"].as_py()]

    def close(self) -> DataFile:
        self._writer.close()
        size = self._stream.tell()
        self._stream.close()
        least, most = min(self._seqs, default=None), max(self._seqs, default=None)
        return DataFile(path=self._path, rows=self._rows, bytes=size, min_seq=least, max_seq=most, day=self._day)


def _choose_dictionaries(schema: pa.Schema) -> list[str]:
    """Return the columns with few different values. A dictionary of ids or bodies would cost more than it saves."""
    return [name for name in _FEW_VALUES if name.partition(".")[0] in schema.names]
