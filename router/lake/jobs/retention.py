"""Drop whole event days from bronze and silver once they are old; gold stays, so every report and
seal reads as before.

    bronze's files of the days ──> sequences ──> `removals` ──> quarantine, duplicates, conflicts, silver, bronze
                                                        ──> a cut of what is left ──> seals are read as of that cut ──> vacuum

A day that is sealed can no longer be made again, so its events are needed for nothing but
questions. A day that is not sealed stays, unless it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from msgspec import Struct

from router.core.errors import Misconfigured
from router.lake.jobs.erase import SPARED, append_whole_cut, move_seals
from router.lake.jobs.maintenance import read_rows, rewrite_file, vacuum
from router.lake.tables.late import list_sealed_days
from router.lake.warehouse import DataFile, Removal, SequenceSpans, Warehouse

# bronze last: the others are found by it
TABLES = ("quarantine", "duplicates", "conflicts", "silver", "bronze")


class RetentionResult(Struct, frozen=True, kw_only=True):
    """The days that were dropped, or would be, and those that are as old and not sealed."""

    days: list[str]
    unsealed: list[str]
    messages: int
    resealed: int = 0
    deleted: int = 0  # files
    # from then on `vacuum` deletes the dropped files; None: there are none
    gone_after: datetime | None = None


def drop_old_days(
    warehouse: Warehouse, before: date, *, has_unsealed: bool = False, dry_run: bool = False
) -> RetentionResult:
    """Drop the event days before this one. `has_unsealed`: also those that are not sealed. Raises
    Conflict beside a dead batch.
    """
    sealed = {str(day) for day in list_sealed_days(warehouse.seals())}
    old = sorted(
        {
            file.day
            for file in warehouse.tables["bronze"].list_files()
            if file.day is not None and file.day < str(before)
        }
    )
    unsealed = [day for day in old if day not in sealed]
    chosen = old if has_unsealed else [day for day in old if day in sealed]
    last = _find_last(warehouse) if chosen else 0
    spans = {
        day: sequences for day in chosen if len(sequences := _read_sequences(warehouse, day, last))
    }
    days = list(spans)
    messages = sum(map(len, spans.values()))
    left = [] if has_unsealed else unsealed
    if dry_run or not (days or _is_cut_short(warehouse)):
        return RetentionResult(days=days, unsealed=left, messages=messages)
    if days:
        removal = Removal(
            id=uuid4().hex,
            kind="retention",
            at=datetime.now(UTC),
            sequence=last,
            before=str(before),
        )
        warehouse.removals.append(removal, spans)
        whole = SequenceSpans.from_sequences(
            pa.chunked_array([span.list_sequences() for span in spans.values()])
        )
        for table in TABLES:
            warehouse.tables[table].rewrite(_make_change(warehouse, table, whole))
    resealed = move_seals(warehouse, append_whole_cut(warehouse))
    deleted = len(vacuum(warehouse, older_than=SPARED))
    gone_after = datetime.now(UTC) + SPARED
    return RetentionResult(
        days=days,
        unsealed=left,
        messages=messages,
        resealed=resealed,
        deleted=deleted,
        gone_after=gone_after,
    )


def _is_cut_short(warehouse: Warehouse) -> bool:
    """Whether the last retention dropped its rows and ended before the seals: they are read as of a
    cut that has the rows.
    """
    began = max(
        (removal.at for removal in warehouse.removals.list_all() if removal.kind == "retention"),
        default=None,
    )
    cuts = (warehouse.cut(seal.cut) for seal in warehouse.seals())
    return began is not None and any(
        cut is not None and datetime.fromisoformat(cut.at) < began for cut in cuts
    )


def choose_first_day(keep: timedelta, now: datetime | None = None) -> date:
    """Return the first day that stays."""
    return ((now or datetime.now(UTC)) - keep).date()


def _find_last(warehouse: Warehouse) -> int:
    """Return the last sequence of the last batch that all tables have. Raises Misconfigured if
    there is none.
    """
    if (progress := warehouse.last_progress()) is None:
        raise Misconfigured("--warehouse", f"{warehouse.location} has no batch of an ingest")
    return progress.last


def _read_sequences(warehouse: Warehouse, day: str, last: int) -> SequenceSpans:
    """Read the sequences of the day up to this one: gold needs what a later batch brings."""
    files = [file for file in warehouse.tables["bronze"].list_files() if file.day == day]
    chunks = [
        chunk
        for file in files
        for chunk in read_rows(warehouse.storage, "bronze", file, ["seq"])["seq"].chunks
    ]
    sequences = pa.chunked_array(chunks, pa.int64())
    return SequenceSpans.from_sequences(sequences.filter(pc.less_equal(sequences, last)))


def _make_change(
    warehouse: Warehouse, table: str, spans: SequenceSpans
) -> Callable[[DeltaTable, Sequence[DataFile]], tuple[list[DataFile], list[DataFile]]]:
    """`rewrite` calls it again when another writer was first: each file is written again once."""
    run, done = f"retention-{uuid4().hex[:12]}", dict[str, list[DataFile] | None]()

    def change(_: DeltaTable, files: Sequence[DataFile]) -> tuple[list[DataFile], list[DataFile]]:
        for file in files:
            if file.path not in done and spans.touch(file.min_seq, file.max_seq):
                done[file.path] = rewrite_file(
                    warehouse.storage,
                    table,
                    file,
                    f"{run}-{len(done)}",
                    lambda rows: pa.chunked_array([spans.contain(rows["seq"])]),
                )
        old = [file for file in files if done.get(file.path) is not None]
        return old, [new for file in old for new in done[file.path] or ()]

    return change
