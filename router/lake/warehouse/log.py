"""The tables of one warehouse, and which versions of them belong together: the table `cuts` says
so, one row for each cut.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from cachetools import LRUCache
from deltalake import DeltaTable, Transaction
from msgspec.structs import asdict

from router.core.errors import Misconfigured
from router.lake.tables.arrow import ARROW
from router.lake.tables.gold_columns import GOLD_DIMENSIONS, GOLD_TABLES
from router.lake.tables.schemas import PARTITIONS
from router.lake.warehouse.commit import Cut, CutKind, DataFile, Progress, Seal, name_application
from router.lake.warehouse.delta import LakeTable
from router.lake.warehouse.removals import Removals
from router.lake.warehouse.seals import Seals
from router.lake.warehouse.storage import Storage

# -- The table `cuts`: one row names the versions of all tables that belong together. A reader of
# "now" takes the newest row.
#
# A batch is several commits, one in each table. Its cut comes after the last of them, so no reader
# sees half a batch.


CUTS = "cuts"
MAX_READ = 32  # cuts that are kept
APPLICATION = "cuts"  # its version is the newest cut's number
_COUNTS = pa.map_(pa.string(), pa.int64())
SCHEMA = pa.schema(
    [
        ("cut", pa.int64()),
        ("kind", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("versions", _COUNTS),
        ("stream", pa.string()),
        ("created", pa.string()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("counts", _COUNTS),
    ]
)


class Cuts:
    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.table = LakeTable(storage, CUTS, SCHEMA, partitions=(), ordered_by="cut")
        # a cut never changes; an ingest that runs for ever makes ever more
        self._read: LRUCache[int, Cut] = LRUCache(MAX_READ)

    def head(self) -> int:
        """The newest cut's number; 0 before the first."""
        return self.table.progress_of(APPLICATION) or 0

    def read(self, number: int) -> Cut | None:
        """None: there is no such cut."""
        if number not in self._read and (cut := self._find(number)) is not None:
            self._read[number] = cut
        return self._read.get(number)

    def last_progress(self) -> Progress | None:
        """Return the newest progress that a cut names; None: no cut names any."""
        cut = self.read(self.head())
        while cut is not None and cut.progress is None:
            cut = self.read(cut.number - 1)
        return None if cut is None else cut.progress

    def _find(self, number: int) -> Cut | None:
        holding = [
            file
            for file in self.table.list_files()
            if (file.min_seq or 0) <= number <= (file.max_seq or 0)
        ]
        rows = [row for file in holding for row in self._read_file(file, number)]
        return _make_cut(rows[0]) if rows else None

    def append(
        self,
        kind: CutKind,
        versions: dict[str, int],
        progress: Progress | None = None,
        counts: dict[str, int] | None = None,
    ) -> Cut | None:
        """Write the next cut. None: it would say nothing new, because another writer was faster.

        No table goes back: a writer that stood still between its commits and its cut would else
        hide what came after them.
        """
        while True:
            newest = self.read(number := self.head())
            both = _take_later(versions, newest)
            if (
                newest is not None
                and both == newest.versions
                and (progress is None or not progress.is_after(self.last_progress()))
            ):
                return None
            number += 1
            cut = Cut(
                number=number,
                kind=kind,
                at=datetime.now(UTC).isoformat(),
                versions=both,
                progress=progress,
                counts=counts or {},
            )
            if (
                self.table.commit(
                    [self._write(cut)],
                    lambda table, number=number: _follow(table, number),  # type: ignore[misc]
                )
                is not None
            ):
                self._read[number] = cut
                return cut

    def _write(self, cut: Cut) -> DataFile:
        path = f"{CUTS}/part-{uuid4().hex}.parquet"
        self._storage.make_directory(CUTS)
        with self._storage.filesystem.open_output_stream(self._storage.resolve(path)) as stream:
            pq.write_table(pa.Table.from_pylist([_make_row(cut)], schema=SCHEMA), stream)
            size = stream.tell()
        return DataFile(path=path, rows=1, bytes=size, min_seq=cut.number, max_seq=cut.number)

    def _read_file(self, file: DataFile, number: int) -> list[dict[str, Any]]:
        """Return the file's row of this cut. A compaction makes one file of all cuts, so only that
        row becomes Python's.
        """
        with self._storage.filesystem.open_input_file(self._storage.resolve(file.path)) as source:
            rows = pq.read_table(source)
        chosen: list[dict[str, Any]] = rows.filter(pc.equal(rows["cut"], number)).to_pylist()
        return chosen


def _take_later(versions: dict[str, int], newest: Cut | None) -> dict[str, int]:
    """Both belong together, and versions only rise with the batches: so do the later ones of both."""
    before = {} if newest is None else newest.versions
    return {
        name: max(versions.get(name, 0), before.get(name, 0))
        for name in (*before, *(later for later in versions if later not in before))
    }


def _follow(table: DeltaTable, number: int) -> list[Transaction] | None:
    """None: another cut has this number by now."""
    return (
        [Transaction(APPLICATION, number)]
        if (table.transaction_version(APPLICATION) or 0) < number
        else None
    )


def _make_row(cut: Cut) -> dict[str, Any]:
    progress = {} if cut.progress is None else asdict(cut.progress)
    at = datetime.fromisoformat(cut.at)
    return {
        "cut": cut.number,
        "kind": cut.kind,
        "at": at,
        "versions": list(cut.versions.items()),
        "counts": list(cut.counts.items()),
        **progress,
    }


def _make_cut(row: dict[str, Any]) -> Cut:
    fields = {name: row[name] for name in ("stream", "created", "first", "last")}
    progress = None if fields["stream"] is None else Progress(**fields)
    return Cut(
        number=row["cut"],
        kind=row["kind"],
        at=row["at"].isoformat(),
        versions=dict(row["versions"]),
        progress=progress,
        counts=dict(row["counts"] or ()),
    )


# -- The tables of one warehouse, and which versions of them belong together.


_KINDS = {"day": pa.string(), "bucket": pa.int32()}
OLD_LOG = "_commits"  # of a form before Delta
_ANEW = "`router usage ingest` into a new directory makes it anew"


class Warehouse:
    """One warehouse, at a directory or a URI. Only the driver opens its tables: delta-rs does not
    survive a fork.
    """

    def __init__(self, location: str) -> None:
        self.storage = Storage(location)
        self.location = self.storage.location  # absolute: an executor has another working directory
        self.tables = {
            name: LakeTable(self.storage, name, _make_schema(name), PARTITIONS[name])
            for name in ARROW
        }
        self._cuts = Cuts(self.storage)
        self._seals = Seals(self.storage)
        self.removals = Removals(self.storage)

    def refuse_old_form(self) -> None:
        """Raises Misconfigured for a warehouse with the log of an earlier form, or with sums that
        are grouped by other columns.
        """
        if self.storage.has(OLD_LOG):
            raise Misconfigured(
                "--warehouse", f"{self.location} has a log of an older form ({OLD_LOG}): {_ANEW}"
            )
        for name, table in GOLD_TABLES.items():
            dimensions = self.tables[name].list_columns() & set(GOLD_DIMENSIONS)
            if dimensions and dimensions != set(table.dimensions):
                has, wanted = (
                    ", ".join(dimension for dimension in GOLD_DIMENSIONS if dimension in columns)
                    for columns in (dimensions, table.dimensions)
                )
                raise Misconfigured(
                    "--warehouse",
                    (
                        f"{self.location}: {name} has an older form, sums by {has}, not "
                        f"{wanted}: {_ANEW}"
                    ),
                )

    @property
    def cut_table(self) -> LakeTable:
        """The table of the cuts itself, which grows with each micro-batch and is compacted and
        vacuumed like the others.
        """
        return self._cuts.table

    def head(self) -> int:
        """Return the number of the newest cut; 0 before the first."""
        return self._cuts.head()

    def cut(self, number: int | None = None) -> Cut | None:
        """Return the newest cut, or the one with this number."""
        return self._cuts.read(self.head() if number is None else number)

    def files(self, table: str, as_of_cut: int | None = None) -> list[DataFile]:
        """Return the files of a table as of the newest cut, or of an earlier one."""
        cut = self.cut(as_of_cut)
        version = None if cut is None else cut.versions.get(table)
        return [] if version is None else self.tables[table].list_files(version)

    def paths(self, table: str, as_of_cut: int | None = None) -> list[str]:
        """Return the paths of those files, for Spark, DuckDB or Trino."""
        return [self.storage.uri(file.path) for file in self.files(table, as_of_cut)]

    def seals(self) -> list[Seal]:
        return self.seals_of(self.tables["gold_day"].load())

    def seals_of(self, days: DeltaTable | None) -> list[Seal]:
        """Return the seals that count in this snapshot of `gold_day`."""
        return self._seals.read(days)

    def last_progress(self) -> Progress | None:
        """Return the part of the stream that the last named batch holds. Progress itself is
        silver's: `last_sequence`.
        """
        return self._cuts.last_progress()

    def last_sequence(self, stream: str, created: str) -> int:
        """Return the last sequence of the stream in silver, which is the truth of progress; 0:
        none.
        """
        return self.tables["silver"].progress_of(name_application(stream, created)) or 0

    def append_cut(
        self,
        kind: CutKind,
        versions: dict[str, int],
        progress: Progress | None = None,
        counts: dict[str, int] | None = None,
    ) -> Cut | None:
        """Write the next cut. None: the newest one is of later versions already, and the progress
        is named.
        """
        return self._cuts.append(kind, versions, progress, counts)

    def write_seal(self, seal: Seal) -> None:
        self._seals.write(seal)


def _make_schema(table: str) -> pa.Schema:
    return pa.schema([*ARROW[table], *(pa.field(name, _KINDS[name]) for name in PARTITIONS[table])])
