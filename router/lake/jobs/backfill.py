"""Silver and gold of some days made again from bronze, and compared with what stands there.

    bronze ── retype ──> the days' events, aside ── less those of which an earlier one counts ──> sums to compare
                                                                                             └──> `apply`: sift

On unchanged data there is no difference, and then there is no commit. Otherwise the difference is shown first, and only
`apply` writes: the days' files go, new ones come, in one commit. Sealed days are never touched; corrections that landed in the
days stay as they are.
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
    """What the days would have that they have not, and the other way round."""

    events_missing: int  # in silver, by bronze
    events_too_many: int
    sums_differ: int  # rows of gold, all grains
    cost_now: Decimal
    cost_then: Decimal

    @property
    def is_none(self) -> bool:
        return not (self.events_missing or self.events_too_many or self.sums_differ)


class Backfill:
    """One recomputation of the days from `first` to `last`, both inclusive; `close` it."""

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
        """Raises Conflict when something was committed since this began."""
        directory = f"backfill-{uuid4().hex[:12]}"
        corrections = {table: put(self._corrections(table), self._warehouse, table, directory) for table in GRAINS}
        added = joined([sifted(self._spark, self._tasks(directory)).added, corrections])
        removed = {table: [file.path for file in self._files(table)] for table in ("silver", *GRAINS)}
        return self._warehouse.append(
            lambda commit, at: Commit(commit=commit, kind="backfill", at=at, add=added, remove=removed), after=self._after
        )

    def _not_to_count(self) -> pa.Array:
        """Of the days' events, those of which an earlier one counts. What silver has of other days stands."""
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
        """What stands there, without corrections of sealed days."""
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
    """Rows that are on one side only."""
    mine, others = ({repr(row) for row in table.select([*GROUP, *SUMS]).to_pylist()} for table in (now, then))
    return len(mine ^ others)


def _total(sums: pa.Table) -> Decimal:
    return pc.sum(widened(sums)["cost"]).as_py() or Decimal(0)
