"""Read columns of a table's committed files, by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

from router.lake.warehouse import DataFile, Warehouse


class WarehouseSnapshot(Struct, frozen=True):
    """A warehouse as of one commit: later commits do not disturb a reconciliation."""

    warehouse: Warehouse
    as_of: int

    def has_column(self, table: str, name: str) -> bool:
        """Whether every file of the table has the column; false if one is older."""
        return all(name in self._read_names(file) for file in self.warehouse.files(table, self.as_of))

    def read_each(self, table: str, names: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the columns, one file at a time."""
        for file in self.warehouse.files(table, self.as_of):
            yield self._read_file(file, names)

    def read_column(self, table: str, name: str, kind: pa.DataType) -> pa.Array:
        chunks = [chunk for rows in self.read_each(table, [name]) for chunk in rows[name].cast(kind).chunks]
        return pa.chunked_array(chunks, kind).combine_chunks()

    def read_between(self, table: str, names: Sequence[str], first: int, last: int) -> pa.Table | None:
        """Return the rows of these sequences (both inclusive), in order; only files that may hold them are opened."""
        held = [file for file in self.warehouse.files(table, self.as_of) if _may_hold(file, first, last)]
        if not held:
            return None
        rows = pa.concat_tables([self._read_file(file, names, (first, last)) for file in held])
        return rows.filter((pc.field("seq") >= first) & (pc.field("seq") <= last)).sort_by("seq").combine_chunks()

    def _read_names(self, file: DataFile) -> list[str]:
        storage = self.warehouse.storage
        with pq.ParquetFile(storage.resolve(file.path), filesystem=storage.filesystem) as parquet:
            return list(parquet.schema_arrow.names)

    def _read_file(self, file: DataFile, names: Sequence[str], span: tuple[int, int] | None = None) -> pa.Table:
        """Read one file; of a large, compacted one only the row groups that may hold the span."""
        storage = self.warehouse.storage
        with pq.ParquetFile(storage.resolve(file.path), filesystem=storage.filesystem) as parquet:
            if span is None:
                return parquet.read(list(names))
            place = parquet.schema_arrow.get_field_index("seq")
            groups = [
                number for number in range(parquet.num_row_groups) if _has_overlap(parquet.metadata.row_group(number).column(place), span)
            ]
            return parquet.read_row_groups(groups, list(names))


def _may_hold(file: DataFile, first: int, last: int) -> bool:
    return (file.min_seq is None or file.min_seq <= last) and (file.max_seq is None or file.max_seq >= first)


def _has_overlap(chunk: pq.ColumnChunkMetaData, span: tuple[int, int]) -> bool:
    statistics = chunk.statistics
    return statistics is None or not statistics.has_min_max or bool(statistics.min <= span[1] and statistics.max >= span[0])
