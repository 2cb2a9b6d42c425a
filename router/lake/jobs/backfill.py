"""Make silver and gold of some days again from bronze, and compare them with the committed tables.

    bronze's files of these days ──> what silver should hold, and its sums, compared by the tasks (`backfill_tasks`)
                                └──> `apply`: files in place of the days' files

Bronze lies by the day of its events, so what a backfill costs follows its days, and not the
history. The driver gets counts and the names of files. On unchanged data there is no difference and
no commit. Otherwise the command shows the difference first, and only `apply` writes. Sealed days
are never touched, and the days keep their rows that correct sealed windows.

Messages in quarantine stay there, whatever bounds the settings have now: for a message, the bounds
hold that it was ingested with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Context, Decimal
from functools import partial, reduce

from msgspec import Struct
from pyspark.sql import SparkSession

from router.core.errors import Conflict, Misconfigured
from router.lake.jobs.backfill_tasks import (
    BackfillPart,
    BackfillPlan,
    compare_day,
    parse_file,
    recompute_bucket,
)
from router.lake.jobs.commits import GOLD, find_whole
from router.lake.jobs.derive import merge_files
from router.lake.tables.gold_tables import GOLD_TABLES
from router.lake.tables.identity_buckets import BUCKETS
from router.lake.tables.late import list_days, list_sealed_days
from router.lake.warehouse import DataFile, Progress, Warehouse

# first the table of days: a seal that came meanwhile is found before anything is changed
MADE_AGAIN = (GOLD[0], "silver", *GOLD[1:])
READ = ("bronze", "quarantine", *MADE_AGAIN)  # by the day of the event
BY_ARRIVAL = ("duplicates", "conflicts")  # by the day of the storing, which can be any later one
_WIDE = Context(prec=100)


class BackfillDifference(Struct, frozen=True, kw_only=True):
    """How the recomputed days differ from the committed ones."""

    events_missing: int  # bronze has them, silver does not
    events_too_many: int
    sums_differ: int  # rows of gold
    cost_now: Decimal
    cost_then: Decimal  # after `apply`

    @property
    def is_none(self) -> bool:
        return not (self.events_missing or self.events_too_many or self.sums_differ)


class Backfill:
    """One recomputation of the days from `first` to `last`, both inclusive."""

    def __init__(self, spark: SparkSession, warehouse: Warehouse, first: date, last: date) -> None:
        if last < first:
            raise Misconfigured("--to", f"{last} is before {first}")
        days = list_days(first, last)
        if closed := sorted(list_sealed_days(warehouse.seals()).intersection(days)):
            raise Misconfigured(
                "--from, --to",
                f"{closed[0]} is sealed: what was wrong in it can only be adjusted in a later day",
            )
        if dropped := sorted(set(warehouse.removals.list_days()).intersection(map(str, days))):
            raise Misconfigured(
                "--from, --to",
                f"the retention dropped the events of {dropped[0]}: only its sums are left",
            )
        self._spark = spark
        self._warehouse = warehouse
        self._days = tuple(map(str, days))
        self._versions, self._progress = _find_whole(warehouse)
        self._files = {
            table: [file for file in self._list_files(table) if file.day in self._days]
            for table in READ
        }
        self._files |= {
            table: _keep_common(self._list_files(table), self._files["bronze"])
            for table in BY_ARRIVAL
        }

    def compare(self) -> BackfillDifference:
        parts = self._run(is_written=False)
        return BackfillDifference(
            events_missing=sum(one.missing for one in parts),
            events_too_many=sum(one.too_many for one in parts),
            sums_differ=sum(one.sums_differ for one in parts),
            cost_now=_add_exactly(one.cost_now for one in parts),
            cost_then=_add_exactly(one.cost_then for one in parts),
        )

    def apply(self) -> None:
        """Replace the days' files, then show them in a cut. Whatever dies on the way, the same
        backfill again mends.

        Raises Conflict if another job has committed since this object was created.
        """
        added = merge_files(one.added for one in self._run(is_written=True))
        for table in MADE_AGAIN:
            self._warehouse.tables[table].replace(
                self._files[table], added.get(table, []), after=self._versions[table]
            )
        changed = {table: self._versions[table] + 1 for table in MADE_AGAIN}
        self._warehouse.append_cut("backfill", {**self._versions, **changed}, self._progress)

    def show(self) -> None:
        """Show in a cut what an earlier backfill of these days wrote, if it died before its own.
        For who found no difference.
        """
        shown = {file.path for table in MADE_AGAIN for file in self._warehouse.files(table)}
        if any(file.path not in shown for table in MADE_AGAIN for file in self._files[table]):
            self._warehouse.append_cut("backfill", self._versions, self._progress)

    def _run(self, *, is_written: bool) -> list[BackfillPart]:
        plan = BackfillPlan(
            warehouse=self._warehouse.location,
            days=self._days,
            files=self._files,
            revision=self._warehouse.head() + 1,
            is_written=is_written,
        )
        bronze = self._files["bronze"]
        parsed = self._spark.sparkContext.parallelize(bronze, max(1, len(bronze))).flatMap(
            partial(parse_file, plan)
        )
        by_bucket = parsed.partitionBy(len(self._days) * BUCKETS, _identity).mapPartitionsWithIndex(
            partial(recompute_bucket, plan)
        )
        by_day = by_bucket.partitionBy(
            len(self._days) * len(GOLD_TABLES), _identity
        ).mapPartitionsWithIndex(partial(compare_day, plan))
        parts: list[BackfillPart] = by_day.collect()
        return parts

    def _list_files(self, table: str) -> list[DataFile]:
        return self._warehouse.tables[table].list_files(self._versions[table])


def _keep_common(files: Iterable[DataFile], others: Sequence[DataFile]) -> list[DataFile]:
    return [file for file in files if any(file.shares_sequences(one) for one in others)]


def _identity(task: int) -> int:
    return task


def _add_exactly(amounts: Iterable[Decimal]) -> Decimal:
    return reduce(_WIDE.add, amounts, Decimal(0))


def _find_whole(warehouse: Warehouse) -> tuple[dict[str, int], Progress | None]:
    """Return the versions of all tables that end with the same batch, and its progress if no cut
    names it.

    Raises Misconfigured; Conflict beside a half-written batch, which the next ingest would count
    again if its days were made again now.
    """
    if missing := [table for table in MADE_AGAIN if warehouse.tables[table].load() is None]:
        raise Misconfigured("--warehouse", f"{warehouse.location} has no {missing[0]}")
    if (whole := find_whole(warehouse)) is None:
        raise Conflict(
            "some tables have a batch that others lack: run `router usage ingest`, which "
            "completes it, and this again"
        )
    return whole
