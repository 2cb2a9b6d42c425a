"""The tables of one warehouse, and which versions of them belong together."""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable

from router.core.errors import Misconfigured
from router.lake.tables.arrow import ARROW
from router.lake.tables.gold_tables import GOLD_DIMENSIONS, GOLD_TABLES
from router.lake.tables.schemas import PARTITIONS
from router.lake.warehouse.commit import Cut, CutKind, DataFile, Progress, Seal, name_application
from router.lake.warehouse.cuts import Cuts
from router.lake.warehouse.delta import LakeTable
from router.lake.warehouse.removals import Removals
from router.lake.warehouse.seals import Seals
from router.lake.warehouse.storage import Storage

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
            found = self.tables[name].list_columns() & set(GOLD_DIMENSIONS)
            if found and found != set(table.dimensions):
                has, wanted = (
                    ", ".join(one for one in GOLD_DIMENSIONS if one in columns)
                    for columns in (found, table.dimensions)
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
