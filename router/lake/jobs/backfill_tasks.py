"""What a backfill does on the executors, in three steps; a step's output is shuffled to the next
one's tasks.

    a file of bronze                 ── parse, less what was refused ──> its events, by (day, bucket)
    the events of a (day, bucket)    ── compare with silver's ──> counts; silver's new files; partial sums, by (day, table of gold)
    the sums of a (day, table)       ── compare with gold's ──> counts; gold's new files

A task reads files of its day only. What the ingest took for a duplicate or a conflict stays one,
whichever day its first event has: the tables of those say so, and they are read where they hold
sequences of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

from router.lake.files import read_files
from router.lake.jobs.daily_writer import write_days
from router.lake.jobs.derive import FilesByTable, sum_by_table, write_table_sums
from router.lake.jobs.staging import decode_events, encode_events
from router.lake.tables.arrow import ARROW, EVENT, MESSAGE
from router.lake.tables.body import ANY_BOUNDS
from router.lake.tables.dedupe import KEY_COLUMNS, KEY_SCHEMA, find_rejects
from router.lake.tables.event import parse_messages
from router.lake.tables.gold import merge_sums
from router.lake.tables.gold_columns import FIGURES
from router.lake.tables.gold_tables import GOLD_TABLES
from router.lake.tables.identity_buckets import BUCKETS, find_identity_buckets
from router.lake.tables.late import floor_to_days
from router.lake.tables.wide import widen
from router.lake.warehouse import DataFile
from router.lake.warehouse.storage import Storage

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
        [one for table in REFUSED for one in plan.files[table] if one.shares_sequences(file)],
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
    for _, one in rows:
        if isinstance(one, BackfillPart):
            yield one
        else:
            partial.append(decode_events(one.body))
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
