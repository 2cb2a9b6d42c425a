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

from router.errors import Misconfigured
from router.lake.files import columns_of
from router.lake.identities import Identities
from router.lake.jobs.aside import discard, put_aside
from router.lake.jobs.days import put
from router.lake.jobs.retype import retyped
from router.lake.jobs.sift import GRAINS, Sifting, joined, parted, sifted, summed
from router.lake.tables.arrow import ARROW
from router.lake.tables.dedupe import KEY_COLUMNS, KEYS, dropped
from router.lake.tables.gold import KEYS as GROUP
from router.lake.tables.gold import SUMS, merged
from router.lake.tables.late import days_between, sealed_days
from router.lake.tables.wide import widened
from router.lake.warehouse import Commit, File, Warehouse


class Difference(Struct, frozen=True, kw_only=True):
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
        days = days_between(first, last)
        if closed := sorted(sealed_days(warehouse.seals()).intersection(days)):
            raise Misconfigured("--from, --to", f"{closed[0]} is sealed: what was wrong in it can only be adjusted in a later day")
        self._spark = spark
        self._warehouse = warehouse
        self._after = warehouse.head()
        self._days = set(map(str, days))
        bronze = warehouse.files("bronze", self._after)
        quarantined = columns_of(warehouse, "quarantine", warehouse.files("quarantine", self._after), ["seq"])["seq"]
        self._asides = retyped(spark, warehouse, bronze, quarantined.combine_chunks(), pa.array(days, pa.date32()))
        self._keys = pa.concat_tables([KEYS.empty_table(), *(put_aside(warehouse, path, KEY_COLUMNS) for path in self._asides)])
        self._gone = self._not_to_count()

    def close(self) -> None:
        for path in self._asides:
            discard(self._warehouse, path)

    def difference(self) -> Difference:
        now = columns_of(self._warehouse, "silver", self._files("silver"), KEY_COLUMNS)
        then = self._keys.filter(pc.invert(pc.is_in(self._keys["seq"], self._gone)))
        sums = [(self._sums_now(table), made) for table, made in self._sums_then().items()]
        return Difference(
            events_missing=len(then.join(now, KEY_COLUMNS, join_type="left anti")),
            events_too_many=len(now.join(then, KEY_COLUMNS, join_type="left anti")),
            sums_differ=sum(_differing(now, then) for now, then in sums),
            cost_now=_total(sums[-1][0]),
            cost_then=_total(sums[-1][1]),
        )

    def apply(self) -> Commit:
        """Replace the days' files. Raises Conflict if another job has committed since this object was created."""
        directory = f"backfill-{uuid4().hex[:12]}"
        corrections = {table: put(self._corrections(table), self._warehouse, table, directory) for table in GRAINS}
        added = joined([sifted(self._spark, self._tasks(directory)).added, corrections])
        removed = {table: [file.path for file in self._files(table)] for table in ("silver", *GRAINS)}
        return self._warehouse.append(
            lambda commit, at: Commit(commit=commit, kind="backfill", at=at, add=added, remove=removed), after=self._after
        )

    def _not_to_count(self) -> pa.Array:
        """Find the sequences of the days' events whose identity an earlier event has. Other days' events in silver stay as they are."""
        before = Identities(self._warehouse).known(self._warehouse.files("silver", self._after), self._keys["id_high"])
        ours = columns_of(self._warehouse, "silver", self._files("silver"), ["seq"])["seq"]
        others = before.filter(pc.invert(pc.is_in(before["seq"], ours)))
        return dropped(self._keys, others)["seq"].combine_chunks()

    def _tasks(self, directory: str = "") -> list[Sifting]:
        shared = {"warehouse": self._warehouse.location, "gone": self._gone, "sealed": frozenset[date](), "revision": self._after + 1}
        return [Sifting(aside=path, directory=f"{directory}-{number}", **shared) for number, path in enumerate(self._asides)]

    def _files(self, table: str) -> list[File]:
        return [file for file in self._warehouse.files(table, self._after) if file.day in self._days]

    def _sums_then(self) -> dict[str, pa.Table]:
        made = self._spark.sparkContext.parallelize(self._tasks(), max(1, len(self._asides))).map(_sums_of).collect()
        nothing = {table: _empty(table) for table in GRAINS}
        return {table: merged(pa.concat_tables([one[table] for one in (nothing, *made)]), GROUP, grain) for table, grain in GRAINS.items()}

    def _sums_now(self, table: str) -> pa.Table:
        """Read the committed sums of the days, without corrections of sealed days."""
        rows = columns_of(self._warehouse, table, self._files(table), (*GROUP, *SUMS))
        return merged(rows.filter(pc.is_null(rows["corrects_window"])), GROUP, GRAINS[table])

    def _corrections(self, table: str) -> pa.Table:
        rows = columns_of(self._warehouse, table, self._files(table), ARROW[table].names)
        return rows.filter(pc.is_valid(rows["corrects_window"]))


def _sums_of(one: Sifting) -> dict[str, pa.Table]:
    counting, _ = parted(one)
    return {table: sums.select([*GROUP, *SUMS]) for table, sums in summed(counting, one.sealed).items()}


def _empty(table: str) -> pa.Table:
    return pa.schema([ARROW[table].field(name) for name in (*GROUP, *SUMS)]).empty_table()


def _differing(now: pa.Table, then: pa.Table) -> int:
    """Count the rows that are on one side only."""
    mine, others = ({repr(row) for row in table.select([*GROUP, *SUMS]).to_pylist()} for table in (now, then))
    return len(mine ^ others)


def _total(sums: pa.Table) -> Decimal:
    return pc.sum(widened(sums)["cost"]).as_py() or Decimal(0)
