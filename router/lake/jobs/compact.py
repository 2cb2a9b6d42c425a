"""Merge small files into one for each day, and delete what dead jobs left. pyarrow does it: no row changes, so Spark is not needed.

The merged files stay in the warehouse: a table as of an earlier commit is made of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from router.core.errors import Conflict
from router.lake.files import describe_file
from router.lake.jobs.staging_file import STAGING
from router.lake.tables.schemas import SCHEMAS
from router.lake.warehouse import Commit, DataFile, Warehouse

AT_LEAST = 8  # files of a day: fewer are not worth a rewrite
LEFTOVER = timedelta(days=1)  # no job runs longer


def compact(warehouse: Warehouse, *, at_least: int = AT_LEAST) -> Commit | None:
    """Compact all tables in one commit; None if there was nothing to do. Ingests may commit meanwhile.

    Raises Conflict if another job replaced files meanwhile.
    """
    head, directory = warehouse.head(), f"compact-{uuid4().hex[:12]}"
    added: defaultdict[str, list[DataFile]] = defaultdict(list)
    removed: defaultdict[str, list[str]] = defaultdict(list)
    for table in SCHEMAS:
        for day, files in _group_by_day(warehouse.files(table, head)).items():
            if len(files) >= at_least:
                added[table].append(_merge_files(warehouse, files, f"{table}/{directory}/day={day}"))
                removed[table] += (file.path for file in files)
    if not added:
        return None
    return _append(warehouse, lambda commit, at: Commit(commit=commit, kind="compact", at=at, add=dict(added), remove=dict(removed)), head)


def _append(warehouse: Warehouse, make: Callable[[int, str], Commit], head: int) -> Commit:
    """Commit after whatever was committed since `head`, as long as no file was replaced: files that came since stay as they are."""
    while True:
        try:
            return warehouse.append(make, after=head)
        except Conflict:
            newer = warehouse.commits()[head:]
            if not newer or any(commit.remove for commit in newer):
                raise
            head += len(newer)


def sweep(warehouse: Warehouse, *, older_than: timedelta = LEFTOVER) -> list[str]:
    """Delete the directories of jobs that no commit names, and return their names."""
    named = {find_job_directory(file.path) for commit in warehouse.commits() for files in commit.add.values() for file in files}
    removed = []
    for table in (*SCHEMAS, STAGING):
        for info in warehouse.storage.list_names(table):
            home = f"{table}/{info.base_name}"
            if info.type is fs.FileType.Directory and home not in named and _is_older(info, older_than):
                warehouse.storage.remove(home)
                removed.append(home)
    return removed


def find_job_directory(path: str) -> str:
    """Return the directory of the job that wrote a file."""
    table, directory, *_ = path.split("/")
    return f"{table}/{directory}"


def _is_older(info: fs.FileInfo, than: timedelta) -> bool:
    changed: datetime | None = info.mtime
    return changed is not None and datetime.now(UTC) - changed >= than


def _group_by_day(files: Iterable[DataFile]) -> dict[str, list[DataFile]]:
    days: defaultdict[str, list[DataFile]] = defaultdict(list)
    for file in files:
        days[file.day or ""].append(file)
    return days


def _merge_files(warehouse: Warehouse, files: list[DataFile], home: str) -> DataFile:
    """Write the files as one, a row group for each. A column that an older file does not have is null there."""
    storage, path = warehouse.storage, f"{home}/part-0.parquet"
    read = [pq.ParquetFile(storage.resolve(file.path), filesystem=storage.filesystem) for file in files]
    schema = pa.unify_schemas([one.schema_arrow.remove_metadata() for one in read])
    storage.filesystem.create_dir(storage.resolve(home), recursive=True)
    with storage.filesystem.open_output_stream(storage.resolve(path)) as stream:
        with pq.ParquetWriter(stream, schema, compression="zstd") as writer:
            for one in read:
                writer.write_table(pa.concat_tables([schema.empty_table(), one.read()], promote_options="default"))
        size = stream.tell()
    return describe_file(warehouse, path, size)
