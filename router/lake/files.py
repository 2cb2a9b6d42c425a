"""Read Parquet files of the tables: chosen columns of chosen files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from router.lake.tables.arrow import ARROW
from router.lake.warehouse import DataFile, Warehouse
from router.lake.warehouse.storage import Storage


def read_columns(
    warehouse: Warehouse, table: str, files: Iterable[DataFile], names: Sequence[str]
) -> pa.Table:
    """Read these columns of all the files. A file that is older than a column gives null there."""
    return read_files(warehouse.storage, table, files, names)


def read_files(
    storage: Storage, table: str, files: Iterable[DataFile], names: Sequence[str]
) -> pa.Table:
    """The same in a task, which has no warehouse."""
    schema = pa.schema([ARROW[table].field(name) for name in names])
    read = (
        pq.ParquetFile(storage.resolve(file.path), filesystem=storage.filesystem).read(
            columns=list(names)
        )
        for file in files
    )
    return pa.concat_tables([schema.empty_table(), *read], promote_options="default").select(
        list(names)
    )
