"""Data frames into a job's own directory of a table, and what was written, from the footers of the files.

Each attempt writes where nobody else does, so what a dead one left is never in the way of the next: it is in no commit, and
`sweep` takes it away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from router.lake.tables.schemas import DAY_OF, SCHEMAS, columns
from router.lake.warehouse import File, Warehouse


def write(frame: DataFrame, warehouse: Warehouse, table: str, directory: str) -> list[File]:
    """All rows of a frame, a directory a day; the files that came of it."""
    home = f"{table}/{directory}"
    rows = frame.select(*(name for name, _ in columns(table)), f.to_date(DAY_OF[table]).alias("day"))
    rows.write.mode("overwrite").option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").partitionBy("day").parquet(
        warehouse.storage.uri(home)
    )
    return sorted(_written(warehouse, home), key=lambda file: file.path)


def put(rows: pa.Table, warehouse: Warehouse, table: str, directory: str) -> list[File]:
    """An Arrow table that is small enough to be here, a file a day."""
    days = rows[DAY_OF[table]].cast(pa.timestamp("us")).cast(pa.date32(), safe=False)
    return [_put(rows.filter(pc.equal(days, day)), warehouse, f"{table}/{directory}/day={day.as_py()}") for day in sorted_days(days)]


def sorted_days(days: pa.ChunkedArray) -> list[pa.Scalar]:
    return sorted(pc.unique(days), key=lambda day: day.as_py())


def _put(rows: pa.Table, warehouse: Warehouse, home: str) -> File:
    storage, path = warehouse.storage, f"{home}/part-0.parquet"
    storage.filesystem.create_dir(storage.inside(home), recursive=True)
    with storage.filesystem.open_output_stream(storage.inside(path)) as stream:
        pq.write_table(rows, stream, compression="zstd")
        size = stream.tell()
    return described(warehouse, path, size)


def columns_of(warehouse: Warehouse, files: Iterable[File], names: Sequence[str]) -> pa.Table:
    """Some columns of some files, here."""
    storage = warehouse.storage
    read = (pq.ParquetFile(storage.inside(file.path), filesystem=storage.filesystem) for file in files)
    return pa.concat_tables([one.read(columns=list(names)) for one in read])


def rows_of(spark: SparkSession, warehouse: Warehouse, table: str, files: list[File]) -> DataFrame:
    """The rows of some files, with the columns as they are today."""
    if not files:
        return spark.createDataFrame([], SCHEMAS[table])
    paths = [warehouse.storage.uri(file.path) for file in files]
    return spark.read.schema(SCHEMAS[table]).option("recursiveFileLookup", "true").parquet(*paths)


def _written(warehouse: Warehouse, home: str) -> Iterator[File]:
    for info in warehouse.storage.names(home, recursive=True):
        if info.type is fs.FileType.File and info.extension == "parquet":
            inside = info.path[len(warehouse.storage.inside("")) :]
            yield described(warehouse, inside, info.size)


def described(warehouse: Warehouse, path: str, size: int) -> File:
    """One file as its footer tells it; where it lies tells its day."""
    with warehouse.storage.filesystem.open_input_file(warehouse.storage.inside(path)) as file:
        footer = pq.read_metadata(file)
    least, most = _sequences(footer)
    day = PurePosixPath(path).parent.name.removeprefix("day=")
    return File(path=path, rows=footer.num_rows, bytes=size, min_seq=least, max_seq=most, day=day)


def _sequences(footer: pq.FileMetaData) -> tuple[int | None, int | None]:
    names = footer.schema.names
    if "seq" not in names or not footer.num_row_groups:
        return None, None
    place = names.index("seq")
    told = [footer.row_group(number).column(place).statistics for number in range(footer.num_row_groups)]
    return min(one.min for one in told), max(one.max for one in told)
