"""The table `seals`: closed periods. A seal counts if the table of days says so, in a commit of its
own.

    write the row ──> commit a mark into `gold_day`, if nothing was committed there since the sums were read

So the sums of a sealed period are those that its hash was made of, whatever an ingest does
meanwhile; and an ingest that was planned before the mark finds it when it commits.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from msgspec.structs import asdict

from router.lake.warehouse.commit import DataFile, Seal
from router.lake.warehouse.delta import LakeTable
from router.lake.warehouse.storage import Storage

SEALS = "seals"
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("first_day", pa.string()),
        ("last_day", pa.string()),
        ("sequence", pa.int64()),
        ("cut", pa.int64()),
        ("rows", pa.int64()),
        ("hash", pa.string()),
        ("columns", pa.list_(pa.string())),
        ("earlier_hashes", pa.list_(pa.string())),
    ]
)


class Seals:
    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._table = LakeTable(storage, SEALS, SCHEMA, partitions=(), ordered_by="cut")

    def read(self, days: DeltaTable | None) -> list[Seal]:
        """Return the seals that this snapshot of `gold_day` has a mark of, oldest first."""
        if days is None:
            return []
        written = [
            _make_seal(row) for file in self._table.list_files() for row in self._read_file(file)
        ]
        newest = {seal.id: seal for seal in sorted(written, key=lambda seal: (seal.cut, seal.id))}
        return [
            seal
            for seal in newest.values()
            if days.transaction_version(name_mark(seal)) is not None
        ]

    def write(self, seal: Seal) -> None:
        """Write the row. It counts once `gold_day` has its mark; of several rows with the same id,
        that of the highest cut counts.
        """
        path = f"{SEALS}/part-{uuid4().hex}.parquet"
        self._storage.make_directory(SEALS)
        with self._storage.filesystem.open_output_stream(self._storage.resolve(path)) as stream:
            pq.write_table(pa.Table.from_pylist([_make_row(seal)], schema=SCHEMA), stream)
            size = stream.tell()
        self._table.commit(
            [DataFile(path=path, rows=1, bytes=size, min_seq=seal.cut, max_seq=seal.cut)],
            lambda _: [],
        )

    def _read_file(self, file: DataFile) -> list[dict[str, Any]]:
        with self._storage.filesystem.open_input_file(self._storage.resolve(file.path)) as source:
            rows: list[dict[str, Any]] = pq.read_table(source).to_pylist()
        return rows


def name_mark(seal: Seal) -> str:
    """The id of the application transaction that says that a seal counts."""
    return f"seal:{seal.id}"


def _make_row(seal: Seal) -> dict[str, Any]:
    return {
        **asdict(seal),
        "columns": list(seal.columns),
        "earlier_hashes": list(seal.earlier_hashes),
    }


def _make_seal(row: dict[str, Any]) -> Seal:
    return Seal(
        **{
            **row,
            "columns": tuple(row["columns"]),
            "earlier_hashes": tuple(row.get("earlier_hashes") or ()),
        }
    )
