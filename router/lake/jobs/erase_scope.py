"""What an erasure covers: which rows of which tables, found from the tenant, the day and a
sequence.

    messages     by the tenant that they name (`tables.tenants`), by their header beside another
                 one's body only if they are no event;
                 what repeats or contradicts such an event goes with it
    silver       by the sequences of those messages
    gold         by the tenant; a table without tenants by the windows that hold its events, which
                 are summed again from silver

Reads only: `erase` writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

from router.lake.jobs.commits import GOLD
from router.lake.jobs.derive import sum_by_table
from router.lake.jobs.maintenance import read_rows
from router.lake.tables.arrow import ARROW, EVENT
from router.lake.tables.gold import INSTANT, floor_instants
from router.lake.tables.gold_columns import GOLD_TABLES
from router.lake.tables.late import floor_to_days, list_sealed_days
from router.lake.tables.tenants import find_messages_of
from router.lake.warehouse import DataFile, Progress, Seal, SequenceSpans, Warehouse

MESSAGE_COLUMNS = ("seq", "time", "headers", "data")
WITHOUT_TENANT = tuple(
    name for name, table in GOLD_TABLES.items() if "tenant_id" not in table.dimensions
)
OF_EVENTS = ("silver", "duplicates", "conflicts")
NO_WINDOWS = pa.array([], INSTANT)


class EraseScope(Struct, frozen=True, kw_only=True):
    """`base`: the paths of gold's files that hold exactly the events up to `progress.last`; none:
    all files are meant.
    """

    tenant: str
    before: date | None
    progress: Progress
    base: Mapping[str, frozenset[str]] = {}
    spans: SequenceSpans = SequenceSpans()
    windows: Mapping[str, pa.Array] = {}  # of tables without tenants: the windows of its events

    @property
    def before_ms(self) -> int | None:
        return (
            None
            if self.before is None
            else int(datetime.combine(self.before, time.min, UTC).timestamp() * 1000)
        )

    def may_hold(self, table: str, file: DataFile) -> bool:
        """Whether rows of this file can be meant."""
        if table in GOLD:
            return not self.base or file.path in self.base[table]
        return self.spans.touch(file.min_seq, file.max_seq)

    def mark(self, table: str, rows: pa.Table) -> pa.ChunkedArray:
        """Return for each row whether it goes."""
        if table not in GOLD:
            return pa.chunked_array([self.spans.contain(rows["seq"])])
        own = pc.coalesce(rows["corrects_window"], rows["window_start"])
        if table in WITHOUT_TENANT:
            return pc.is_in(own, self.windows[table])
        is_tenants = pc.equal(rows["tenant_id"], self.tenant)
        return (
            is_tenants
            if self.before is None
            else pc.and_(is_tenants, pc.less(floor_to_days(own), pa.scalar(self.before)))
        )


def find_rows(warehouse: Warehouse, scope: EraseScope) -> EraseScope:
    """Return the scope with its sequences, and the windows of its events."""
    files = [
        file
        for file in warehouse.tables["bronze"].list_files()
        if (file.min_seq or 0) <= scope.progress.last
    ]
    batches = (batch for file in files for batch in _read_batches(warehouse, file))
    parts = [find_messages_of(batch, scope.tenant, scope.before_ms) for batch in batches]
    by_header = pa.chunked_array([part.by_header for part in parts], pa.int64())
    own = pa.chunked_array(
        [*(part.own for part in parts), *_drop_events(warehouse, by_header).chunks], pa.int64()
    )
    spans = SequenceSpans.from_sequences(own.filter(pc.less_equal(own, scope.progress.last)))
    repeats = [
        rows
        for table in ("duplicates", "conflicts")
        for rows in _find_repeats(warehouse, table, spans)
    ]
    spans = SequenceSpans.from_sequences(pa.chunked_array([spans.list_sequences(), *repeats]))
    windows = _find_windows(warehouse, spans) if WITHOUT_TENANT else {}
    return EraseScope(
        tenant=scope.tenant,
        before=scope.before,
        progress=scope.progress,
        base=scope.base,
        spans=spans,
        windows=windows,
    )


def _drop_events(warehouse: Warehouse, sequences: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return those sequences that are no event, nor one again: bronze's messages that no table of
    events has.
    """
    spans, events = SequenceSpans.from_sequences(sequences), [pa.array([], pa.int64())]
    for table in OF_EVENTS:
        for file in warehouse.tables[table].list_files():
            if spans.touch(file.min_seq, file.max_seq):
                events += read_rows(warehouse.storage, table, file, ["seq"])["seq"].chunks
    return sequences.filter(pc.invert(pc.is_in(sequences, pa.concat_arrays(events))))


def count_rows(warehouse: Warehouse, scope: EraseScope) -> dict[str, int]:
    """Count what goes, by table: of a table without tenants, the rows that are made again."""
    return {table: _count_table(warehouse, scope, table) for table in warehouse.tables}


def sum_others(warehouse: Warehouse, scope: EraseScope, table: str, day: date) -> pa.Table:
    """Sum what stays of the day in the windows that go: gold's rows of other tenants, placed as
    when they were committed.
    """
    files = [
        file
        for file in warehouse.tables["silver"].list_files()
        if file.day == str(day) and (file.min_seq or 0) <= scope.progress.last
    ]
    events = pa.concat_tables(
        [
            EVENT.empty_table(),
            *(read_rows(warehouse.storage, "silver", file, EVENT.names) for file in files),
        ]
    )
    events = events.filter(
        pc.and_(
            pc.less_equal(events["seq"], scope.progress.last),
            pc.invert(scope.spans.contain(events["seq"])),
        )
    )
    events = events.filter(
        pc.is_in(
            floor_instants(events["timestamp"], GOLD_TABLES[table].grain), scope.windows[table]
        )
    )
    parts = [
        sum_by_table(part, sealed)[table]
        for part, sealed in _split_by_seals(events, warehouse.seals())
        if len(part)
    ]
    return (
        pa.concat_tables(parts) if parts else ARROW[table].empty_table().drop_columns(["revision"])
    )


def list_days_of(scope: EraseScope, table: str) -> list[date]:
    """Return the days of the windows, in order."""
    return sorted(pc.unique(floor_to_days(pa.chunked_array([scope.windows[table]]))).to_pylist())


def _find_windows(warehouse: Warehouse, spans: SequenceSpans) -> dict[str, pa.Array]:
    times = [NO_WINDOWS]
    for file in warehouse.tables["silver"].list_files():
        if spans.touch(file.min_seq, file.max_seq):
            rows = read_rows(warehouse.storage, "silver", file, ["seq", "timestamp"])
            times += rows["timestamp"].filter(spans.contain(rows["seq"])).chunks
    instants = pa.chunked_array(times, INSTANT)
    return {
        table: pc.unique(floor_instants(instants, GOLD_TABLES[table].grain))
        for table in WITHOUT_TENANT
    }


def _split_by_seals(
    events: pa.Table, seals: Sequence[Seal]
) -> Iterable[tuple[pa.Table, frozenset[date]]]:
    """Yield events with the days that were sealed when their batch was committed."""
    ends = sorted({seal.sequence for seal in seals})
    for after, last in zip([-1, *ends], [*ends, 2**63 - 1], strict=True):
        part = events.filter(
            pc.and_(pc.greater(events["seq"], after), pc.less_equal(events["seq"], last))
        )
        yield part, list_sealed_days(seal for seal in seals if seal.sequence <= after)


def _find_repeats(warehouse: Warehouse, table: str, own: SequenceSpans) -> Iterable[pa.Array]:
    for file in warehouse.tables[table].list_files():
        rows = read_rows(warehouse.storage, table, file, ["seq", "first_seq"])
        yield rows["seq"].filter(own.contain(rows["first_seq"])).combine_chunks()


def _read_batches(warehouse: Warehouse, file: DataFile) -> Iterable[pa.RecordBatch]:
    with warehouse.storage.filesystem.open_input_file(
        warehouse.storage.resolve(file.path)
    ) as source:
        yield from pq.ParquetFile(source).iter_batches(columns=list(MESSAGE_COLUMNS))


def _count_table(warehouse: Warehouse, scope: EraseScope, table: str) -> int:
    names = (
        [
            name
            for name in ("tenant_id", "window_start", "corrects_window")
            if name in ARROW[table].names
        ]
        if table in GOLD
        else ["seq"]
    )
    return sum(
        pc.sum(scope.mark(table, read_rows(warehouse.storage, table, file, names))).as_py() or 0
        for file in warehouse.tables[table].list_files()
        if scope.may_hold(table, file)
    )
