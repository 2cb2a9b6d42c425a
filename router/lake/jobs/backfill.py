"""Make silver and gold of some days again from bronze, and compare them with the committed tables.

    bronze's files of these days ── parse ──> events by bucket ── less the rejects ──> what silver should hold, and its sums
                                                                                  └──> `apply`: files in place of the days' files

A task gets a bucket, as in an ingest. On unchanged data there is no difference and no commit. Otherwise the command shows the difference
first, and only `apply` writes. Sealed days are never touched, and the days keep their rows that correct sealed windows.

Messages in quarantine stay there, whatever bounds the settings have now: for a message, the bounds hold that it was ingested with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import date
from decimal import Decimal
from functools import partial
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct
from pyspark.sql import SparkSession

from router.core.errors import Misconfigured
from router.lake.files import read_columns
from router.lake.jobs.daily_writer import write_days
from router.lake.jobs.derive import GRAINS, FilesByTable, merge_files, sum_by_table, write_sums
from router.lake.jobs.known_keys import find_known
from router.lake.jobs.staging import decode_events, encode_events
from router.lake.tables.arrow import ARROW, EVENT, MESSAGE
from router.lake.tables.body import ANY_BOUNDS
from router.lake.tables.dedupe import KEY_COLUMNS, find_rejects
from router.lake.tables.event import parse_messages
from router.lake.tables.gold import GOLD_KEYS as GROUP
from router.lake.tables.gold import merge_sums
from router.lake.tables.gold_columns import FIGURES
from router.lake.tables.identity_buckets import BUCKETS, find_identity_buckets
from router.lake.tables.late import floor_to_days, list_days, list_sealed_days
from router.lake.tables.wide import widen
from router.lake.warehouse import DataFile, Warehouse
from router.lake.warehouse.storage import Storage

ROWS_PER_READ = 16_384
BY_BUCKET = ("silver", *GRAINS)


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


class BackfillPlan(Struct, frozen=True, kw_only=True):
    """What every task knows. Spark sends it to the executors."""

    warehouse: str
    days: tuple[date, ...]
    refused: pa.Array  # sequences that count in no case
    ours: dict[int, list[DataFile]]  # silver's files of these days, by bucket
    others: dict[int, list[DataFile]]  # of all other days
    revision: int


class BucketResult(Struct, frozen=True, kw_only=True):
    """What a task found, and wrote."""

    missing: int
    too_many: int
    sums: dict[str, pa.Table]
    added: FilesByTable


class Backfill:
    """One recomputation of the days from `first` to `last`, both inclusive."""

    def __init__(self, spark: SparkSession, warehouse: Warehouse, first: date, last: date) -> None:
        if last < first:
            raise Misconfigured("--to", f"{last} is before {first}")
        days = list_days(first, last)
        if closed := sorted(list_sealed_days(warehouse.seals()).intersection(days)):
            raise Misconfigured("--from, --to", f"{closed[0]} is sealed: what was wrong in it can only be adjusted in a later day")
        self._spark = spark
        self._warehouse = warehouse
        self._days = set(map(str, days))
        self._now = {table: warehouse.tables[table].list_files() for table in ARROW}
        self._versions = {table: _read_version(warehouse, table) for table in BY_BUCKET}
        self._plan = BackfillPlan(
            warehouse=warehouse.location,
            days=tuple(days),
            refused=self._list_refused(),
            ours=_group_by_bucket(self._list_files("silver")),
            others=_group_by_bucket(file for file in self._now["silver"] if file.day not in self._days),
            revision=warehouse.head() + 1,
        )

    def compare(self) -> BackfillDifference:
        results = self._run(is_written=False)
        sums = [(self._read_sums(table), _merge_results(results, table)) for table in GRAINS]
        return BackfillDifference(
            events_missing=sum(one.missing for one in results),
            events_too_many=sum(one.too_many for one in results),
            sums_differ=sum(_count_differing(now, then) for now, then in sums),
            cost_now=_sum_cost(sums[-1][0]),
            cost_then=_sum_cost(sums[-1][1]),
        )

    def apply(self) -> None:
        """Replace the days' files, silver's first. Raises Conflict if another job has committed since this object was created."""
        run = f"backfill-{uuid4().hex[:12]}"
        corrections = {table: write_days(self._read_corrections(table), self._warehouse.storage, table, f"{run}-kept") for table in GRAINS}
        added = merge_files([*(one.added for one in self._run(is_written=True)), corrections])
        for table in BY_BUCKET:
            self._warehouse.tables[table].replace(self._list_files(table), added.get(table, []), after=self._versions[table])
        newest = self._warehouse.cut()
        if newest is not None:
            changed = {table: version + 1 for table, version in self._versions.items()}
            self._warehouse.append_cut("backfill", {**newest.versions, **changed})

    def _run(self, *, is_written: bool) -> list[BucketResult]:
        files = self._list_files("bronze")
        tasks = min(BUCKETS, self._spark.sparkContext.defaultParallelism)
        parsed = self._spark.sparkContext.parallelize(files, max(1, len(files))).flatMap(partial(parse_file, self._plan, tasks))
        by_bucket = parsed.partitionBy(tasks, _identity).mapPartitions(partial(recompute, self._plan, is_written))
        results: list[BucketResult] = by_bucket.collect()
        return results

    def _list_files(self, table: str) -> list[DataFile]:
        return [file for file in self._now[table] if file.day in self._days]

    def _list_refused(self) -> pa.Array:
        """Return the sequences in quarantine, and those that repeat an event which was removed since: that does not let them count."""
        removed = self._warehouse.removals.read_spans()
        found = [read_columns(self._warehouse, "quarantine", self._now["quarantine"], ["seq"])["seq"]]
        for table in ("duplicates", "conflicts"):
            rows = read_columns(self._warehouse, table, self._now[table], ["seq", "first_seq"])
            found.append(rows["seq"].filter(removed.contain(rows["first_seq"])))
        return pa.chunked_array([chunk for column in found for chunk in column.chunks], pa.int64()).combine_chunks()

    def _read_sums(self, table: str) -> pa.Table:
        """Read the committed sums of the days, without corrections of sealed days."""
        rows = read_columns(self._warehouse, table, self._list_files(table), (*GROUP, *FIGURES))
        return merge_sums(rows.filter(pc.is_null(rows["corrects_window"])), GROUP, GRAINS[table])

    def _read_corrections(self, table: str) -> pa.Table:
        rows = read_columns(self._warehouse, table, self._list_files(table), ARROW[table].names)
        return rows.filter(pc.is_valid(rows["corrects_window"]))


def parse_file(plan: BackfillPlan, tasks: int, file: DataFile) -> Iterator[tuple[int, bytes]]:
    """Parse one file of bronze, and yield the days' events with the task that gets them."""
    storage = Storage(plan.warehouse)
    with storage.filesystem.open_input_file(storage.resolve(file.path)) as source:
        for messages in pq.ParquetFile(source).iter_batches(ROWS_PER_READ, columns=MESSAGE.names):
            is_refused = pc.is_in(messages["seq"], plan.refused)
            events, _ = parse_messages(messages.filter(pc.invert(is_refused)), ANY_BOUNDS)
            events = events.filter(pc.is_in(floor_to_days(events["timestamp"]), pa.array(plan.days, pa.date32())))
            buckets = find_identity_buckets(events)
            for bucket in pc.unique(buckets).to_pylist():
                yield bucket % tasks, encode_events([events.filter(pc.equal(buckets, bucket))])


def recompute(plan: BackfillPlan, is_written: bool, rows: Iterable[tuple[int, bytes]]) -> Iterator[BucketResult]:
    """Yield what the events of one task come to, and write them if that is wanted."""
    events = pa.concat_tables([EVENT.empty_table(), *(decode_events(body) for _, body in rows)])
    buckets, storage, run = find_identity_buckets(events), Storage(plan.warehouse), f"backfill-{uuid4().hex[:12]}"
    for bucket in sorted(pc.unique(buckets).to_pylist()):
        counting = _drop_rejects(storage, plan, bucket, events.filter(pc.equal(buckets, bucket)))
        now = _read_keys(storage, plan.ours.get(bucket, []))
        yield BucketResult(
            missing=len(counting.join(now, KEY_COLUMNS, join_type="left anti")),
            too_many=len(now.join(counting.select(KEY_COLUMNS), KEY_COLUMNS, join_type="left anti")),
            sums={table: sums.select([*GROUP, *FIGURES]) for table, sums in sum_by_table(counting, frozenset()).items()},
            added=_write(storage, plan, counting, bucket, f"{run}-{bucket}") if is_written else {},
        )


def _drop_rejects(storage: Storage, plan: BackfillPlan, bucket: int, events: pa.Table) -> pa.Table:
    known = find_known(storage, plan.others.get(bucket, []), events["id_high"])
    rejects = find_rejects(events, known)["seq"].combine_chunks()
    return events.filter(pc.invert(pc.is_in(events["seq"], rejects)))


def _write(storage: Storage, plan: BackfillPlan, events: pa.Table, bucket: int, run: str) -> FilesByTable:
    silver = write_days(events.sort_by("id_high"), storage, "silver", run, bucket)
    return {"silver": silver, **write_sums(storage, events, frozenset(), plan.revision, run)}


def _read_keys(storage: Storage, files: Iterable[DataFile]) -> pa.Table:
    found = [pa.schema([EVENT.field(name) for name in KEY_COLUMNS]).empty_table()]
    for file in files:
        with storage.filesystem.open_input_file(storage.resolve(file.path)) as source:
            found.append(pq.ParquetFile(source).read(KEY_COLUMNS).cast(found[0].schema))
    return pa.concat_tables(found)


def _identity(task: int) -> int:
    return task


def _read_version(warehouse: Warehouse, table: str) -> int:
    snapshot = warehouse.tables[table].load()
    if snapshot is None:
        raise Misconfigured("--warehouse", f"{warehouse.location} has no {table}")
    return snapshot.version()


def _group_by_bucket(files: Iterable[DataFile]) -> dict[int, list[DataFile]]:
    buckets: defaultdict[int, list[DataFile]] = defaultdict(list)
    for file in files:
        buckets[file.bucket or 0].append(file)
    return dict(buckets)


def _merge_results(results: Iterable[BucketResult], table: str) -> pa.Table:
    nothing = pa.schema([ARROW[table].field(name) for name in (*GROUP, *FIGURES)]).empty_table()
    return merge_sums(pa.concat_tables([nothing, *(one.sums[table] for one in results)]), GROUP, GRAINS[table])


def _count_differing(now: pa.Table, then: pa.Table) -> int:
    """Count the rows that are on one side only."""
    mine, others = ({repr(row) for row in table.select([*GROUP, *FIGURES]).to_pylist()} for table in (now, then))
    return len(mine ^ others)


def _sum_cost(sums: pa.Table) -> Decimal:
    return pc.sum(widen(sums)["cost"]).as_py() or Decimal(0)
