"""Take a tenant's rows out of every table, beside running ingests, and let the bytes go.

    what is the tenant's (`erase_scope`) ──> `removals`, so that the gap is no loss
        ──> quarantine, duplicates, conflicts, gold, silver, bronze: last what the others are found by
        ──> a cut of what is left ──> seals are read as of that cut ──> vacuum

An erasure covers what the tables held when it began: up to a sequence of the stream, at which gold
had the same events as silver. What a batch adds meanwhile is new, and stays. Whatever dies, the
same command again completes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from msgspec import Struct
from msgspec.structs import replace

from router.core.errors import Conflict, Misconfigured
from router.lake.jobs.commits import GOLD, catch_up, find_whole
from router.lake.jobs.daily_writer import write_days
from router.lake.jobs.erase_scope import (
    WITHOUT_TENANT,
    EraseScope,
    count_rows,
    find_rows,
    list_days_of,
    sum_others,
)
from router.lake.jobs.maintenance import rewrite_file, vacuum
from router.lake.jobs.seal import (
    ChooseRows,
    SealContent,
    hash_lines,
    is_unchanged,
    read_canonical,
    read_content,
)
from router.lake.warehouse import Cut, DataFile, Progress, Removal, Seal, Warehouse
from router.lake.warehouse.removals import hash_tenant, make_salt

PATIENCE_S = 60.0  # for a batch that is being committed
TRIES = 5
SPARED = timedelta(hours=1)  # files that a running batch may still read
ORDER = ("quarantine", "duplicates", "conflicts", *GOLD, "silver", "bronze")
NO_END = 2**62
MAX_TENANT = 4096  # characters: a message in quarantine may name one that is no id

OnTable = Callable[[str], None]
Files = list[DataFile]


class EraseResult(Struct, frozen=True, kw_only=True):
    """How many rows each table lost, or would lose, and how many rows of the tenant it holds now."""

    sequence: int  # of the stream: what came after it is new, and stays
    rows: Mapping[str, int]  # in a table without tenants: of windows that were summed again
    left: Mapping[str, int]
    resealed: int = 0  # sealed periods that are read as of a later cut now
    deleted: int = 0  # files
    # from then on `vacuum` deletes the files that held the rows; None: none did
    gone_after: datetime | None = None


class _GoldChanged(Exception):
    """A compaction or a backfill replaced gold's files meanwhile: look again."""


def erase(
    warehouse: Warehouse,
    tenant: str,
    *,
    before: date | None = None,
    dry_run: bool = False,
    on_table: OnTable = lambda _: None,
) -> EraseResult:
    """Erase the tenant's rows, of days before `before` or of all.

    Raises Misconfigured if a seal differs already; Conflict beside a batch whose ingest died."""
    if not 0 < len(tenant) <= MAX_TENANT:
        raise Misconfigured("--tenant", f"from 1 to {MAX_TENANT} characters")
    for _ in range(TRIES):
        scope = find_rows(
            warehouse, _find_moment(warehouse, tenant, before, is_caught_up=not dry_run)
        )
        rows = count_rows(warehouse, scope)
        if dry_run:
            return EraseResult(sequence=scope.progress.last, rows=rows, left=_drop_mixed(rows))
        with suppress(_GoldChanged):
            return _erase(warehouse, scope, rows, on_table)
    raise Conflict(f"gold: other jobs replaced files during each of {TRIES} tries")


def _find_moment(
    warehouse: Warehouse, tenant: str, before: date | None, *, is_caught_up: bool
) -> EraseScope:
    """Wait until gold has exactly silver's events: between two batches."""
    read = warehouse.last_progress()
    if read is None:
        raise Misconfigured("--warehouse", f"{warehouse.location} has no batch of an ingest")
    for _ in range(round(PATIENCE_S * 10)):
        progress = Progress(
            stream=read.stream,
            created=read.created,
            first=1,
            last=warehouse.last_sequence(read.stream, read.created),
        )
        if is_caught_up:
            catch_up(warehouse, progress)
        states = {table: warehouse.tables[table].load_state() for table in GOLD}
        if all(
            state is not None
            and state[0].transaction_version(progress.application) == progress.last
            for state in states.values()
        ):
            base = {
                table: frozenset(file.path for file in state[1])
                for table, state in states.items()
                if state is not None
            }
            return EraseScope(tenant=tenant, before=before, progress=progress, base=base)
        time.sleep(0.1)
    raise Conflict(
        "gold is behind silver: run `router usage ingest`, which completes the batch, and "
        "this again"
    )


def _erase(
    warehouse: Warehouse, scope: EraseScope, rows: Mapping[str, int], on_table: OnTable
) -> EraseResult:
    if broken := [seal for seal in warehouse.seals() if not is_unchanged(warehouse, seal)]:
        raise Misconfigured(
            "--warehouse",
            (
                f"the seal of {broken[0].first_day} to {broken[0].last_day} differs already "
                "(`router usage seal --verify`): find out why first"
            ),
        )
    if has_rows := any(rows.values()):
        _record(warehouse, scope)
        for table in ORDER:
            on_table(table)
            warehouse.tables[table].rewrite(_make_change(warehouse, scope, table))
    on_table("seals")
    cut = append_whole_cut(warehouse)
    resealed = move_seals(warehouse, cut, lambda rows: pc.invert(scope.mark("gold_day", rows)))
    on_table("files")
    deleted = len(vacuum(warehouse, older_than=SPARED))
    everything = replace(scope, progress=replace(scope.progress, last=NO_END), base={})
    left = _drop_mixed(count_rows(warehouse, find_rows(warehouse, everything)))
    gone_after = (
        datetime.now(UTC) + SPARED if has_rows else _find_end_of_last(warehouse, scope.tenant)
    )
    return EraseResult(
        sequence=scope.progress.last,
        rows=rows,
        left=left,
        resealed=resealed,
        deleted=deleted,
        gone_after=gone_after,
    )


def _drop_mixed(rows: Mapping[str, int]) -> dict[str, int]:
    """A sum of several tenants is no tenant's row."""
    return {table: count for table, count in rows.items() if table not in WITHOUT_TENANT}


def _record(warehouse: Warehouse, scope: EraseScope) -> None:
    salt = make_salt()
    removal = Removal(
        id=uuid4().hex,
        kind="erase",
        at=datetime.now(UTC),
        sequence=scope.progress.last,
        salt=salt,
        tenant_hash=hash_tenant(salt, scope.tenant),
        before=None if scope.before is None else str(scope.before),
    )
    warehouse.removals.append(removal, {None: scope.spans})


def _find_end_of_last(warehouse: Warehouse, tenant: str) -> datetime | None:
    """Return when the files of the tenant's last erasure may be deleted; None: there was none, or
    that is past.
    """
    ends = [
        removal.at + SPARED for removal in warehouse.removals.list_all() if removal.is_of(tenant)
    ]
    return max((end for end in ends if end > datetime.now(UTC)), default=None)


# -- one table -------------------------------------------------------------------------------------


def _make_change(
    warehouse: Warehouse, scope: EraseScope, table: str
) -> Callable[[DeltaTable, Sequence[DataFile]], tuple[Files, Files]]:
    """`rewrite` calls it again when another writer was first: each file is written again once."""
    run, done = f"erase-{uuid4().hex[:12]}", dict[str, Files | None]()
    added = (
        _write_sums_of_others(warehouse, scope, table, f"{run}-again")
        if table in WITHOUT_TENANT
        else []
    )

    def change(_: DeltaTable, files: Sequence[DataFile]) -> tuple[Files, Files]:
        if table in GOLD and not scope.base[table] <= {file.path for file in files}:
            raise _GoldChanged
        for file in files:
            if file.path not in done and scope.may_hold(table, file):
                done[file.path] = rewrite_file(
                    warehouse.storage,
                    table,
                    file,
                    f"{run}-{len(done)}",
                    lambda rows: scope.mark(table, rows),
                )
        old = [file for file in files if done.get(file.path) is not None]
        return old, [*(new for file in old for new in done[file.path] or ()), *added]

    return change


def _write_sums_of_others(warehouse: Warehouse, scope: EraseScope, table: str, run: str) -> Files:
    made = (sum_others(warehouse, scope, table, day) for day in list_days_of(scope, table))
    number = pa.scalar(warehouse.head() + 1, pa.int64())
    return [
        file
        for place, sums in enumerate(made)
        for file in write_days(
            sums.append_column("revision", pa.repeat(number, len(sums))),
            warehouse.storage,
            table,
            f"{run}-{place}",
        )
    ]


def append_whole_cut(warehouse: Warehouse) -> Cut:
    """Return a cut of what is left: our own, or one that has all our changes. Ours names the
    progress of a batch that lacks its cut.
    """
    wanted = {
        name: table.version()
        for name, lake_table in warehouse.tables.items()
        if (table := lake_table.load()) is not None
    }
    for _ in range(round(PATIENCE_S * 10)):
        cut = warehouse.cut()
        if cut is not None and all(
            cut.versions.get(name, -1) >= version for name, version in wanted.items()
        ):
            return cut
        whole = find_whole(warehouse)
        if whole is not None and (made := warehouse.append_cut("erase", *whole)) is not None:
            return made
        time.sleep(0.1)
    raise Conflict(
        "the tables have a batch without its cut: run `router usage ingest`, which "
        "completes it, and this again"
    )


# -- sealed periods --------------------------------------------------------------------------------


def move_seals(warehouse: Warehouse, cut: Cut, keep: ChooseRows | None = None) -> int:
    """Let every seal be read as of the new cut, because the old versions hold what must go. `keep`:
    gold's rows that stayed; None: all.
    """
    earlier = [seal for seal in warehouse.seals() if seal.cut < cut.number]
    for seal in earlier:
        warehouse.write_seal(_move_seal(warehouse, seal, cut, keep))
    return len(earlier)


def _move_seal(warehouse: Warehouse, seal: Seal, cut: Cut, keep: ChooseRows | None) -> Seal:
    """Raises Conflict if the period has lost, or got, anything else."""
    first, last = date.fromisoformat(seal.first_day), date.fromisoformat(seal.last_day)
    expected = read_canonical(warehouse, first, last, seal.cut, seal.columns, keep)
    content = read_content(warehouse, first, last, cut.number, seal.columns)
    if content != hash_lines(expected):
        raise Conflict(
            f"the sealed days {first} to {last} differ by more than what was removed; no "
            "file was deleted"
        )
    is_same = content == SealContent(seal.rows, seal.hash)
    hashes = seal.earlier_hashes if is_same else (*seal.earlier_hashes, seal.hash)
    return replace(
        seal, cut=cut.number, rows=content.rows, hash=content.hash, earlier_hashes=hashes
    )
