"""Silver and gold of some days made again from bronze, and compared with what stands there.

On unchanged data there is no difference, and then there is no commit. Otherwise the difference is shown first, and only
`apply` writes: the days' files go, new ones come, in one commit. Sealed days are never touched; corrections that landed in the
days stay as they are.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Literal
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from router.errors import Misconfigured
from router.lake.jobs.files import columns_of, put, rows_of, write
from router.lake.tables.dedupe import KEY_COLUMNS, dropped
from router.lake.tables.event import typed
from router.lake.tables.gold import DIMENSIONS, KEYS, SUMS, merged, partials
from router.lake.tables.late import days_between, sealed_days, windows
from router.lake.warehouse import Commit, File, Warehouse

GRAINS: dict[str, Literal["minute", "day"]] = {"gold_minute": "minute", "gold_day": "day"}
SUMMED = ("time", "timestamp", *DIMENSIONS, "latency_ms", "cost")


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
    """One recomputation of the days from `first` to `last`, both inclusive."""

    def __init__(self, spark: SparkSession, warehouse: Warehouse, first: date, last: date) -> None:
        if last < first:
            raise Misconfigured("--to", f"{last} is before {first}")
        if closed := sorted(sealed_days(warehouse.seals()).intersection(days_between(first, last))):
            raise Misconfigured("--from, --to", f"{closed[0]} is sealed: what was wrong in it can only be adjusted in a later day")
        self._spark = spark
        self._warehouse = warehouse
        self._after = warehouse.head()
        self._days = {str(day) for day in days_between(first, last)}
        self._should = self._events_that_should()

    def difference(self) -> Difference:
        stands = self._files("silver")
        now, then = self._keys_of(stands), self._should.select(*KEY_COLUMNS).toArrow()
        events = self._should.select(*SUMMED).toArrow()
        sums = [(self._sums_now(table), _sums(events, grain)) for table, grain in GRAINS.items()]
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
        added = {"silver": write(self._should, self._warehouse, "silver", directory)}
        events = self._should.select(*SUMMED).toArrow()
        for table, grain in GRAINS.items():
            sums = pa.concat_tables([_sums(events, grain), self._corrections(table)])
            revision = pa.repeat(pa.scalar(self._after + 1, pa.int64()), len(sums))
            added[table] = put(sums.append_column("revision", revision), self._warehouse, table, directory)
        removed = {table: [file.path for file in self._files(table)] for table in added}
        return self._warehouse.append(
            lambda commit, at: Commit(commit=commit, kind="backfill", at=at, add=added, remove=removed), after=self._after
        )

    def _events_that_should(self) -> DataFrame:
        """By bronze: the days' events, without those of which an earlier one counts."""
        bronze = rows_of(self._spark, self._warehouse, "bronze", self._warehouse.files("bronze", self._after))
        told = typed(bronze).where("reason is null")
        mine = told.where(f.date_format("timestamp", "yyyy-MM-dd").isin(*self._days))
        others = told.where(~f.date_format("timestamp", "yyyy-MM-dd").isin(*self._days))
        keys = mine.select(*KEY_COLUMNS)
        known = others.select(*KEY_COLUMNS).join(f.broadcast(keys.select("id_high")), "id_high", "left_semi").select(*KEY_COLUMNS)
        gone = dropped(keys.toArrow(), known.toArrow())
        return mine.join(f.broadcast(self._spark.createDataFrame(gone.select(["seq"]))), "seq", "left_anti") if len(gone) else mine

    def _files(self, table: str) -> list[File]:
        return [file for file in self._warehouse.files(table, self._after) if file.day in self._days]

    def _keys_of(self, files: list[File]) -> pa.Table:
        return rows_of(self._spark, self._warehouse, "silver", files).select(*KEY_COLUMNS).toArrow()

    def _sums_now(self, table: str) -> pa.Table:
        """What stands there, without corrections of sealed days."""
        rows = self._gold(table)
        return merged(rows.filter(pc.is_null(rows["corrects_window"])), KEYS, GRAINS[table])

    def _corrections(self, table: str) -> pa.Table:
        rows = self._gold(table)
        return rows.filter(pc.is_valid(rows["corrects_window"]))

    def _gold(self, table: str) -> pa.Table:
        columns = (*KEYS, *SUMS)
        if files := self._files(table):
            return columns_of(self._warehouse, files, columns).select(columns)
        return rows_of(self._spark, self._warehouse, table, []).select(*columns).toArrow()


def _sums(events: pa.Table, grain: str) -> pa.Table:
    return partials(windows(events, (), grain))


def _differing(now: pa.Table, then: pa.Table) -> int:
    """Rows that are on one side only."""
    mine, others = ({repr(row) for row in table.select([*KEYS, *SUMS]).to_pylist()} for table in (now, then))
    return len(mine ^ others)


def _total(sums: pa.Table) -> Decimal:
    return pc.sum(sums["cost"]).as_py() or Decimal(0)
