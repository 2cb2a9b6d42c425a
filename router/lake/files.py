"""Read Parquet files of the tables: chosen columns of chosen files, and the description that a footer gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq

from router.lake.tables.arrow import ARROW
from router.lake.warehouse import DataFile, Warehouse


def read_columns(warehouse: Warehouse, table: str, files: Iterable[DataFile], names: Sequence[str]) -> pa.Table:
    """Read these columns of all the files. A file that is older than a column gives null there."""
    storage, schema = warehouse.storage, pa.schema([ARROW[table].field(name) for name in names])
    read = (pq.ParquetFile(storage.resolve(file.path), filesystem=storage.filesystem).read(columns=list(names)) for file in files)
    return pa.concat_tables([schema.empty_table(), *read], promote_options="default").select(list(names))


def describe_file(warehouse: Warehouse, path: str, size: int) -> DataFile:
    """Describe one file from its footer; its directory names its day."""
    with warehouse.storage.filesystem.open_input_file(warehouse.storage.resolve(path)) as file:
        footer = pq.read_metadata(file)
    least, most = _sequences(footer)
    day = PurePosixPath(path).parent.name.removeprefix("day=")
    return DataFile(path=path, rows=footer.num_rows, bytes=size, min_seq=least, max_seq=most, day=day)


def _sequences(footer: pq.FileMetaData) -> tuple[int | None, int | None]:
    names = footer.schema.names
    if "seq" not in names or not footer.num_row_groups:
        return None, None
    position = names.index("seq")
    statistics = [footer.row_group(number).column(position).statistics for number in range(footer.num_row_groups)]
    return min(one.min for one in statistics), max(one.max for one in statistics)
