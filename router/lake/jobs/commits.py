"""Commit a batch: each table once, in an order from which any crash can be continued; then the cut.

    bronze, quarantine, duplicates, conflicts ──> silver, the truth of progress ──> gold ──> the cut

Each commit names the last sequence of the batch, and is made only if the table's own last sequence
is before the first one:

    the table is behind the batch         it takes the files
    the table has the whole batch         it is left alone: this is a repetition, or another writer
                                          was first
    the table has a part of the batch     Overtaken: another writer is at work, and cut its batches
                                          differently

A crash before silver's commit leaves tables that are ahead of silver; the next batch ends where
they end (`find_end`). A crash after it leaves gold behind, which is made up for from silver
(`catch_up`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from types import MappingProxyType
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, Transaction

from router.core.crashpoints import crashpoint
from router.core.errors import RouterError
from router.lake.jobs.derive import FilesByTable, write_sums
from router.lake.tables.arrow import EVENT
from router.lake.tables.gold_columns import GOLD_TABLES
from router.lake.tables.late import list_sealed_days
from router.lake.warehouse import Cut, DataFile, Progress, Warehouse
from router.lake.warehouse.delta import Decide

BEFORE_SILVER = ("bronze", "quarantine", "duplicates", "conflicts")
NO_VERSIONS: Mapping[str, int] = MappingProxyType({})
# the first one knows the seals
GOLD = ("gold_day", *(table for table in GOLD_TABLES if table != "gold_day"))


class Overtaken(RouterError):
    """Another ingest committed a part of this batch meanwhile. A new run reads on after it."""

    code = "overtaken"


class SumsOutdated(Exception):
    """A day was sealed after the batch was planned, or gold lacks an earlier batch, whose writer
    died: the sums are made again.
    """


def commit_batch(
    warehouse: Warehouse,
    progress: Progress,
    added: FilesByTable,
    sealed: frozenset[date],
    counts: Mapping[str, int],
) -> Cut | None:
    """Commit a batch; None if another writer did, so that nothing of this one counts. Raises
    Overtaken.
    """
    made: dict[str, int | None] = {}
    for table in BEFORE_SILVER:
        made[table] = warehouse.tables[table].commit(added.get(table, ()), _follow(progress))
        crashpoint(f"lake_after_{table}")
    silver = warehouse.tables["silver"]
    # it cannot change until our commit, but to what makes that fail
    before = silver.progress_of(progress.application) or 0
    if (made_silver := silver.commit(added.get("silver", ()), _follow(progress))) is None:
        return None
    made["silver"] = made_silver
    crashpoint("lake_after_silver")
    try:
        for table in GOLD:
            made[table] = _commit_gold_table(
                warehouse, table, progress, added.get(table, ()), sealed, before
            )
    except SumsOutdated:
        catch_up(warehouse, progress)
    crashpoint("lake_after_gold")
    return append_cut(
        warehouse,
        progress,
        counts,
        {name: version for name, version in made.items() if version is not None},
    )


def append_cut(
    warehouse: Warehouse,
    progress: Progress,
    counts: Mapping[str, int],
    made: Mapping[str, int] = NO_VERSIONS,
) -> Cut | None:
    """Name the versions that end with this batch. None: another writer is ahead already, and its
    cut will name later ones.
    """
    versions = find_versions(warehouse, progress.application, progress.last, made)
    return (
        None
        if versions is None
        else warehouse.append_cut("ingest", versions, progress, dict(counts))
    )


def find_versions(
    warehouse: Warehouse, application: str, last: int, made: Mapping[str, int] = NO_VERSIONS
) -> dict[str, int] | None:
    """Return the tables' versions, if all of them end with this sequence.

    `made`: versions of tables that this batch has just made, which end with it. They are not looked
    up again: reading a table's log is most of what a batch costs the driver.
    """
    snapshots = {name: table.load() for name, table in warehouse.tables.items() if name not in made}
    written = {
        name: snapshot
        for name, snapshot in snapshots.items()
        if snapshot is not None and snapshot.transaction_version(application) == last
    }
    return (
        {**made, **{name: snapshot.version() for name, snapshot in written.items()}}
        if len(written) == len(snapshots)
        else None
    )


def find_whole(warehouse: Warehouse) -> tuple[dict[str, int], Progress | None] | None:
    """Return the tables' versions, if all of them end with silver's last sequence, and the progress
    that no cut names yet.
    """
    if (read := warehouse.last_progress()) is None:
        return None
    last = warehouse.last_sequence(read.stream, read.created)
    versions = find_versions(warehouse, read.application, last)
    return None if versions is None else (versions, read.find_rest(last))


def find_end(warehouse: Warehouse, application: str) -> int | None:
    """Where the next batch must end: at the end of the tables that are ahead of silver. None: no
    table is.
    """
    done = warehouse.tables["silver"].progress_of(application) or 0
    ahead = [warehouse.tables[name].progress_of(application) or 0 for name in BEFORE_SILVER]
    return min((last for last in ahead if last > done), default=None)


def catch_up(warehouse: Warehouse, progress: Progress) -> None:
    """Make up for what gold lacks: its sums are a function of silver. `progress`: of the batch that
    silver has last.
    """
    for table in GOLD:
        done = warehouse.tables[table].progress_of(progress.application) or 0
        while done < progress.last:
            sealed = list_sealed_days(warehouse.seals())
            sums = write_sums(
                warehouse.storage,
                _read_events(warehouse, done, progress.last),
                sealed,
                progress.last,
                f"again-{uuid4().hex[:12]}",
            )
            missing = Progress(
                stream=progress.stream, created=progress.created, first=done + 1, last=progress.last
            )
            try:
                _commit_gold_table(warehouse, table, missing, sums[table], sealed, done)
            except SumsOutdated:
                continue
            done = progress.last


def _commit_gold_table(  # noqa: PLR0917
    warehouse: Warehouse,
    table: str,
    progress: Progress,
    files: Sequence[DataFile],
    sealed: frozenset[date],
    before: int,
) -> int | None:
    """Return the version that has them, as `LakeTable.commit`. `before`: the last sequence that
    these sums follow. Raises SumsOutdated.
    """

    def follow_seals(snapshot: DeltaTable) -> Sequence[Transaction] | None:
        lacks_a_batch = (snapshot.transaction_version(progress.application) or 0) < before
        if lacks_a_batch or (
            table == GOLD[0] and list_sealed_days(warehouse.seals_of(snapshot)) != sealed
        ):
            raise SumsOutdated
        return _follow(progress)(snapshot)

    return warehouse.tables[table].commit(files, follow_seals)


def _follow(progress: Progress) -> Decide:
    def decide(table: DeltaTable) -> Sequence[Transaction] | None:
        done = table.transaction_version(progress.application) or 0
        if done >= progress.last:
            return None
        if done >= progress.first:
            raise Overtaken(
                f"another ingest has committed up to sequence {done} meanwhile; start this "
                "one again"
            )
        return [Transaction(progress.application, progress.last)]

    return decide


def _read_events(warehouse: Warehouse, after: int, last: int) -> pa.Table:
    """Read the events of silver with these sequences."""
    files = [
        file
        for file in warehouse.tables["silver"].list_files()
        if (file.max_seq or 0) > after and (file.min_seq or 0) <= last
    ]
    parts = [EVENT.empty_table()]
    for file in files:
        with warehouse.storage.filesystem.open_input_file(
            warehouse.storage.resolve(file.path)
        ) as source:
            rows = pq.read_table(source, schema=EVENT)
        parts.append(
            rows.filter(pc.and_(pc.greater(rows["seq"], after), pc.less_equal(rows["seq"], last)))
        )
    return pa.concat_tables(parts)
