"""Files of the tables made anew: small ones merged, unread ones deleted, and one written again
without some of its rows.

A compaction is a commit of each table, beside running ingests: the library makes it again if
another commit came first. It is seen with the next cut; if no batch is being written, at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from msgspec import Struct

from router.core.errors import Conflict
from router.lake.jobs.commits import find_versions
from router.lake.jobs.daily_writer import DailyWriter
from router.lake.tables.arrow import ARROW
from router.lake.warehouse import DataFile, Warehouse
from router.lake.warehouse.delta import LakeTable
from router.lake.warehouse.storage import Storage

TARGET_BYTES = 128 * 1024 * 1024  # of a file
TRIES = 10
KEPT = timedelta(days=7)  # versions that readers may still read

TableCallback = Callable[[str], None]


class Compaction(Struct, frozen=True):
    """How many files the tables had and have."""

    files_before: int
    files_after: int


def compact(warehouse: Warehouse, on_table: TableCallback = lambda _: None) -> Compaction:
    """Merge the files of all tables. Raises Conflict if another compaction is at work all the time."""
    removed = added = 0
    for table in (*warehouse.tables.values(), warehouse.cut_table):
        on_table(table.name)
        compacted = _compact_table(table)
        removed, added = removed + compacted.files_before, added + compacted.files_after
    if added:
        _append_cut(warehouse)
    return Compaction(removed, added)


def vacuum(
    warehouse: Warehouse,
    *,
    older_than: timedelta = KEPT,
    dry_run: bool = False,
    on_table: TableCallback = lambda _: None,
) -> list[str]:
    """Delete files that no version of the last days has, and no seal's; return their paths. Earlier
    cuts cannot be read afterwards.
    """
    pinned = [cut for seal in warehouse.seals() if (cut := warehouse.cut(seal.cut)) is not None]
    newest = warehouse.cut()
    kept = [*pinned, *([] if newest is None else [newest])]
    removed: list[str] = []
    for lake_table in (*warehouse.tables.values(), warehouse.cut_table):
        on_table(name := lake_table.name)
        if (
            table := lake_table.load() if dry_run else lake_table.load_for_maintenance()
        ) is not None:
            versions = sorted({cut.versions[name] for cut in kept if name in cut.versions})
            hours = int(older_than.total_seconds() // 3600)
            paths = table.vacuum(
                hours,
                dry_run=dry_run,
                enforce_retention_duration=False,
                full=True,
                keep_versions=versions,
            )
            removed += (f"{name}/{path}" for path in paths)
    return removed


def _compact_table(lake_table: LakeTable) -> Compaction:
    for _ in range(TRIES):
        try:
            table = lake_table.load_for_maintenance()
            return Compaction(0, 0) if table is None else _optimize(table)
        except CommitFailedError:  # another job replaced files meanwhile
            continue
    raise Conflict(f"{lake_table.name}: other jobs replaced files during each of {TRIES} tries")


def _optimize(table: DeltaTable) -> Compaction:
    told = table.optimize.compact(target_size=TARGET_BYTES)
    return Compaction(told["numFilesRemoved"], told["numFilesAdded"])


def _append_cut(warehouse: Warehouse) -> None:
    """Show the compaction at once, if no batch is half written."""
    progress = warehouse.last_progress()
    if (
        progress is not None
        and (versions := find_versions(warehouse, progress.application, progress.last)) is not None
    ):
        warehouse.append_cut("compact", versions)


# -- Write a file again without some of its rows, one row group at a time.


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
