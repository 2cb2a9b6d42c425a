"""Make silver and gold of some days again from bronze, by tasks on the executors, and compare them
with the committed tables.

    bronze's files of these days ──> what silver should hold, and its sums, compared by the tasks
                                └──> `apply`: files in place of the days' files

Bronze lies by the day of its events, so what a backfill costs follows its days, and not the
history. The driver gets counts and the names of files. On unchanged data there is no difference and
no commit. Otherwise the command shows the difference first, and only `apply` writes. Sealed days
are never touched, and the days keep their rows that correct sealed windows.

Messages in quarantine stay there, whatever bounds the settings have now: for a message, the bounds
hold that it was ingested with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from decimal import Context, Decimal
from functools import partial, reduce
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct
from pyspark.sql import SparkSession

from router.core.errors import Conflict, Misconfigured
from router.lake.files import read_files
from router.lake.jobs.commits import GOLD, find_whole
from router.lake.jobs.daily_writer import write_days
from router.lake.jobs.derive import FilesByTable, merge_files, sum_by_table, write_table_sums
from router.lake.jobs.staging import decode_events, encode_events
from router.lake.tables.arrow import ARROW, EVENT, MESSAGE
from router.lake.tables.body import ANY_BOUNDS
from router.lake.tables.event import (
    BUCKETS,
    KEY_COLUMNS,
    KEY_SCHEMA,
    find_identity_buckets,
    find_rejects,
    parse_messages,
)
from router.lake.tables.gold import merge_sums, widen
from router.lake.tables.gold_columns import FIGURES, GOLD_TABLES
from router.lake.tables.late import floor_to_days, list_days, list_sealed_days
from router.lake.warehouse import DataFile, Progress, Warehouse
from router.lake.warehouse.storage import Storage

# -- What a backfill does on the executors, in three steps; a step's output is shuffled to the
# next one's tasks.
#
# a file of bronze               ── parse, less what was refused ──> its events, by (day, bucket)
# the events of a (day, bucket)  ── compare with silver's ──> counts; silver's new files; partial sums, by (day, table of gold)
# the sums of a (day, table)     ── compare with gold's ──> counts; gold's new files
#
# A task reads files of its day only. What the ingest took for a duplicate or a conflict stays one,
# whichever day its first event has: the tables of those say so, and they are read where they hold
# sequences of the file.


ROWS_PER_READ = 16_384
REFUSED = ("quarantine", "duplicates", "conflicts")
_GOLD = tuple(GOLD_TABLES)


class BackfillPlan(Struct, frozen=True, kw_only=True):
    """What every task knows. Spark sends it to the executors.

    `files`: of these days; of duplicates and conflicts, those that may hold their sequences.
    """

    warehouse: str
    days: tuple[str, ...]
    files: dict[str, list[DataFile]]
    revision: int
    is_written: bool

    def list_files(self, table: str, day: str, bucket: int | None = None) -> list[DataFile]:
        return [
            file
            for file in self.files[table]
            if file.day == day and (bucket is None or file.bucket == bucket)
        ]


class PartialSums(Struct, frozen=True):
    """The sums of one bucket's events, for one table of gold: Arrow's bytes."""

    body: bytes


class BackfillPart(Struct, frozen=True, kw_only=True):
    """What a task of the second or third step found and wrote."""

    missing: int = 0
    too_many: int = 0
    sums_differ: int = 0
    cost_now: Decimal = Decimal(0)
    cost_then: Decimal = Decimal(0)
    added: FilesByTable = {}


Emitted = tuple[int, BackfillPart | PartialSums]  # the task of the third step


def parse_file(plan: BackfillPlan, file: DataFile) -> Iterator[tuple[int, bytes]]:
    """Parse one file of bronze, and yield its events with the task that gets them."""
    storage, day = Storage(plan.warehouse), file.day or ""
    refused = _read_sequences(
        storage,
        [other for table in REFUSED for other in plan.files[table] if other.shares_sequences(file)],
    )
    with storage.filesystem.open_input_file(storage.resolve(file.path)) as source:
        for messages in pq.ParquetFile(source).iter_batches(ROWS_PER_READ, columns=MESSAGE.names):
            events, _ = parse_messages(
                messages.filter(pc.invert(pc.is_in(messages["seq"], refused))), ANY_BOUNDS
            )
            events = events.filter(
                pc.equal(floor_to_days(events["timestamp"]).cast(pa.string()), day)
            )
            buckets = find_identity_buckets(events)
            for bucket in pc.unique(buckets).to_pylist():
                yield (
                    plan.days.index(day) * BUCKETS + bucket,
                    encode_events([events.filter(pc.equal(buckets, bucket))]),
                )


def recompute_bucket(
    plan: BackfillPlan, task: int, rows: Iterable[tuple[int, bytes]]
) -> Iterator[Emitted]:
    """Compare the events of one (day, bucket) with silver's, and yield their sums."""
    place, bucket = divmod(task, BUCKETS)
    day, storage, run = plan.days[place], Storage(plan.warehouse), f"backfill-{uuid4().hex[:12]}"
    events = pa.concat_tables([EVENT.empty_table(), *(decode_events(body) for _, body in rows)])
    rejects = find_rejects(events, KEY_SCHEMA.empty_table())["seq"].combine_chunks()
    counting = events.filter(pc.invert(pc.is_in(events["seq"], rejects)))
    now = read_files(storage, "silver", plan.list_files("silver", day, bucket), KEY_COLUMNS)
    added = (
        write_days(counting.sort_by("id_high"), storage, "silver", run, bucket)
        if plan.is_written
        else []
    )
    yield (
        place * len(_GOLD),
        BackfillPart(
            missing=len(counting.join(now, KEY_COLUMNS, join_type="left anti")),
            too_many=len(
                now.join(counting.select(KEY_COLUMNS), KEY_COLUMNS, join_type="left anti")
            ),
            added={"silver": added},
        ),
    )
    for number, sums in enumerate(sum_by_table(counting, frozenset()).values()):
        yield place * len(_GOLD) + number, PartialSums(_encode(sums))


def compare_day(plan: BackfillPlan, task: int, rows: Iterable[Emitted]) -> Iterator[BackfillPart]:
    """Compare the sums of one day with those of one table of gold."""
    place, number = divmod(task, len(_GOLD))
    day, name = plan.days[place], _GOLD[number]
    columns = (*GOLD_TABLES[name].keys, *FIGURES)
    partial = [pa.schema([ARROW[name].field(column) for column in columns]).empty_table()]
    for _, part in rows:
        if isinstance(part, BackfillPart):
            yield part
        else:
            partial.append(decode_events(part.body))
    storage, keys = Storage(plan.warehouse), GOLD_TABLES[name].keys
    committed = read_files(storage, name, plan.list_files(name, day), ARROW[name].names)
    is_correction = pc.is_valid(committed["corrects_window"])
    now = merge_sums(
        committed.filter(pc.invert(is_correction)).select(columns), keys, GOLD_TABLES[name].grain
    )
    then = merge_sums(pa.concat_tables(partial), keys, GOLD_TABLES[name].grain)
    costs = (_sum_cost(now), _sum_cost(then)) if name == "gold_day" else (Decimal(0), Decimal(0))
    yield BackfillPart(
        sums_differ=_count_differing(now.select(columns), then.select(columns)),
        cost_now=costs[0],
        cost_then=costs[1],
        added=_write_day(storage, plan, name, then, committed.filter(is_correction))
        if plan.is_written
        else {},
    )


def _write_day(
    storage: Storage, plan: BackfillPlan, name: str, sums: pa.Table, corrections: pa.Table
) -> FilesByTable:
    """Write the day's new sums. Its rows that correct sealed windows stay."""
    run = f"backfill-{uuid4().hex[:12]}"
    kept = write_days(corrections, storage, name, f"{run}-kept")
    return {name: [*kept, *write_table_sums(storage, name, sums, plan.revision, run)]}


def _read_sequences(storage: Storage, files: Iterable[DataFile]) -> pa.Array:
    columns = [
        pq.read_table(storage.resolve(file.path), columns=["seq"], filesystem=storage.filesystem)[
            "seq"
        ]
        for file in files
    ]
    return pa.chunked_array(
        [chunk for column in columns for chunk in column.chunks], pa.int64()
    ).combine_chunks()


def _count_differing(now: pa.Table, then: pa.Table) -> int:
    """Count the rows that are on one side only."""
    mine, others = ({repr(row) for row in table.to_pylist()} for table in (now, then))
    return len(mine ^ others)


def _sum_cost(sums: pa.Table) -> Decimal:
    return pc.sum(widen(sums)["cost"]).as_py() or Decimal(0)


def _encode(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")
    ) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


# -- Make silver and gold of some days again from bronze, and compare them with the committed
# tables.


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
            events_missing=sum(part.missing for part in parts),
            events_too_many=sum(part.too_many for part in parts),
            sums_differ=sum(part.sums_differ for part in parts),
            cost_now=_add_exactly(part.cost_now for part in parts),
            cost_then=_add_exactly(part.cost_then for part in parts),
        )

    def apply(self) -> None:
        """Replace the days' files, then show them in a cut. Whatever dies on the way, the same
        backfill again mends.

        Raises Conflict if another job has committed since this object was created.
        """
        added = merge_files(part.added for part in self._run(is_written=True))
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
    return [file for file in files if any(file.shares_sequences(other) for other in others)]


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
