"""Make silver and gold of some days again from bronze, and compare them with the committed tables.

    bronze ── reparse ──> the days' events, staged ── less the rejects ──> sums to compare
                                                                      └──> `apply`: derive

On unchanged data there is no difference and no commit. Otherwise the command shows the difference first, and only `apply`
writes: it replaces the days' files in one commit. Sealed days are never touched, and the days keep their rows that correct
sealed windows.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark.sql import SparkSession

from router.core.errors import Misconfigured
from router.lake.files import read_columns
from router.lake.identities import IdentityIndex
from router.lake.jobs.daily_writer import write_days
from router.lake.jobs.derive import GRAINS, DeriveTask, derive_all, merge_files, split_events, sum_by_table
from router.lake.jobs.reparse import reparse_all
from router.lake.jobs.staging_file import read_staged, remove_staging
from router.lake.tables.arrow import ARROW
from router.lake.tables.dedupe import KEY_COLUMNS, KEY_SCHEMA, find_rejects
from router.lake.tables.gold import GOLD_KEYS as GROUP
from router.lake.tables.gold import merge_sums
from router.lake.tables.gold_columns import FIGURES
from router.lake.tables.late import list_days, list_sealed_days
from router.lake.tables.wide import widen
from router.lake.warehouse import Commit, DataFile, Warehouse


class BackfillDifference(Struct, frozen=True, kw_only=True):
    """How the recomputed days differ from the committed ones."""

    events_missing: int  # bronze has them, silver does not
    events_too_many: int
    sums_differ: int  # rows of gold, minutes and days
    cost_now: Decimal
    cost_then: Decimal  # after `apply`

    @property
    def is_none(self) -> bool:
        return not (self.events_missing or self.events_too_many or self.sums_differ)


class Backfill:
    """One recomputation of the days from `first` to `last`, both inclusive; the caller must `close` it."""

    def __init__(self, spark: SparkSession, warehouse: Warehouse, first: date, last: date) -> None:
        if last < first:
            raise Misconfigured("--to", f"{last} is before {first}")
        days = list_days(first, last)
        if closed := sorted(list_sealed_days(warehouse.seals()).intersection(days)):
            raise Misconfigured("--from, --to", f"{closed[0]} is sealed: what was wrong in it can only be adjusted in a later day")
        self._spark = spark
        self._warehouse = warehouse
        self._after = warehouse.head()
        self._days = set(map(str, days))
        bronze = warehouse.files("bronze", self._after)
        quarantined = read_columns(warehouse, "quarantine", warehouse.files("quarantine", self._after), ["seq"])["seq"]
        self._staged = reparse_all(spark, warehouse, bronze, quarantined.combine_chunks(), pa.array(days, pa.date32()))
        self._keys = pa.concat_tables([KEY_SCHEMA.empty_table(), *(read_staged(warehouse, path, KEY_COLUMNS) for path in self._staged)])
        self._rejects = self._find_rejects()

    def close(self) -> None:
        for path in self._staged:
            remove_staging(self._warehouse, path)

    def compare(self) -> BackfillDifference:
        now = read_columns(self._warehouse, "silver", self._list_files("silver"), KEY_COLUMNS)
        then = self._keys.filter(pc.invert(pc.is_in(self._keys["seq"], self._rejects)))
        sums = [(self._read_sums(table), made) for table, made in self._recompute_sums().items()]
        return BackfillDifference(
            events_missing=len(then.join(now, KEY_COLUMNS, join_type="left anti")),
            events_too_many=len(now.join(then, KEY_COLUMNS, join_type="left anti")),
            sums_differ=sum(_count_differing(now, then) for now, then in sums),
            cost_now=_sum_cost(sums[-1][0]),
            cost_then=_sum_cost(sums[-1][1]),
        )

    def apply(self) -> Commit:
        """Replace the days' files. Raises Conflict if another job has committed since this object was created."""
        directory = f"backfill-{uuid4().hex[:12]}"
        corrections = {table: write_days(self._read_corrections(table), self._warehouse, table, directory) for table in GRAINS}
        added = merge_files([derive_all(self._spark, self._make_tasks(directory)).added, corrections])
        removed = {table: [file.path for file in self._list_files(table)] for table in ("silver", *GRAINS)}
        return self._warehouse.append(
            lambda commit, at: Commit(commit=commit, kind="backfill", at=at, add=added, remove=removed), after=self._after
        )

    def _find_rejects(self) -> pa.Array:
        """Find the sequences of the days' events whose identity an earlier event has. Other days' events in silver stay as they are."""
        before = IdentityIndex(self._warehouse).find_known(self._warehouse.files("silver", self._after), self._keys["id_high"])
        ours = read_columns(self._warehouse, "silver", self._list_files("silver"), ["seq"])["seq"]
        others = before.filter(pc.invert(pc.is_in(before["seq"], ours)))
        return find_rejects(self._keys, others)["seq"].combine_chunks()

    def _make_tasks(self, directory: str = "") -> list[DeriveTask]:
        shared = {"warehouse": self._warehouse.location, "rejects": self._rejects, "sealed": frozenset[date](), "revision": self._after + 1}
        return [DeriveTask(staging_path=path, directory=f"{directory}-{number}", **shared) for number, path in enumerate(self._staged)]

    def _list_files(self, table: str) -> list[DataFile]:
        return [file for file in self._warehouse.files(table, self._after) if file.day in self._days]

    def _recompute_sums(self) -> dict[str, pa.Table]:
        made = self._spark.sparkContext.parallelize(self._make_tasks(), max(1, len(self._staged))).map(_sum_task).collect()
        nothing = {table: _make_empty(table) for table in GRAINS}
        return {
            table: merge_sums(pa.concat_tables([one[table] for one in (nothing, *made)]), GROUP, grain) for table, grain in GRAINS.items()
        }

    def _read_sums(self, table: str) -> pa.Table:
        """Read the committed sums of the days, without corrections of sealed days."""
        rows = read_columns(self._warehouse, table, self._list_files(table), (*GROUP, *FIGURES))
        return merge_sums(rows.filter(pc.is_null(rows["corrects_window"])), GROUP, GRAINS[table])

    def _read_corrections(self, table: str) -> pa.Table:
        rows = read_columns(self._warehouse, table, self._list_files(table), ARROW[table].names)
        return rows.filter(pc.is_valid(rows["corrects_window"]))


def _sum_task(one: DeriveTask) -> dict[str, pa.Table]:
    counting, _ = split_events(one)
    return {table: sums.select([*GROUP, *FIGURES]) for table, sums in sum_by_table(counting, one.sealed).items()}


def _make_empty(table: str) -> pa.Table:
    return pa.schema([ARROW[table].field(name) for name in (*GROUP, *FIGURES)]).empty_table()


def _count_differing(now: pa.Table, then: pa.Table) -> int:
    """Count the rows that are on one side only."""
    mine, others = ({repr(row) for row in table.select([*GROUP, *FIGURES]).to_pylist()} for table in (now, then))
    return len(mine ^ others)


def _sum_cost(sums: pa.Table) -> Decimal:
    return pc.sum(widen(sums)["cost"]).as_py() or Decimal(0)
