"""One table of the warehouse as a Delta table: its files at a version, and commits that count once.
Its log is never cut.

    look at a fresh snapshot ── has it this batch already? ──> nothing to do
                             └── no ──> commit exactly the next version ── another writer was first ──> look again

A commit is never rebased by the library (no retries): what was looked at is what it builds on. The
last sequence of a batch is the version of an application transaction
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#transaction-identifiers), which stands in
the same commit as the files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from types import MappingProxyType
from uuid import uuid4

import msgspec
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from router.core.errors import Conflict
from router.lake.warehouse.commit import DataFile
from router.lake.warehouse.storage import Storage

# -- The table.

CHECKPOINT_INTERVAL = "20"  # commits
NO_REBASE = 0  # retries of the library
COMMIT_ID = "router.commit"  # in a commit's information

# of a fresh snapshot: what the commit carries; None: no commit
Decide = Callable[[DeltaTable], Sequence[Transaction] | None]
# its files: those to remove, and to add
Change = Callable[[DeltaTable, Sequence[DataFile]], tuple[Sequence[DataFile], Sequence[DataFile]]]


class LakeTable:
    """One table. `schema`: with the columns of `partitions`. `ordered_by`: the column whose ends
    each file's entry tells.
    """

    def __init__(
        self,
        storage: Storage,
        name: str,
        schema: pa.Schema,
        partitions: Sequence[str] = ("day",),
        ordered_by: str = "seq",
    ) -> None:
        self._storage = storage
        self.name = name
        self._schema = schema
        self._partitions = list(partitions)
        self._ordered_by = ordered_by
        self._table: DeltaTable | None = None

    def load(self, version: int | None = None) -> DeltaTable | None:
        """Return a snapshot: of now, or of a version. None: nothing was ever committed."""
        if version is not None:
            return DeltaTable(self._storage.uri(self.name), version=version)
        if self._table is None:
            try:
                self._table = DeltaTable(self._storage.uri(self.name))
            except TableNotFoundError:
                return None
        else:
            self._table.update_incremental()
        return self._table

    def load_for_maintenance(self) -> DeltaTable | None:
        """Return a snapshot of now whose log the library does not cut. None: nothing was ever
        committed.
        """
        table = self.load()
        if table is not None:
            keep_log(table)
        return table

    def list_files(self, version: int | None = None) -> list[DataFile]:
        """Return the table's files, in the order in which they were written."""
        table = self.load(version)
        return [] if table is None else self._read_files(table)

    def load_state(self) -> tuple[DeltaTable, list[DataFile]] | None:
        """Return the snapshot of now, and its files. None: nothing was ever committed."""
        table = self.load()
        return None if table is None else (table, self._read_files(table))

    def list_recent(self, since_ms: int) -> set[str]:
        """Return the paths of the files that were committed, or made by a compaction, at this time
        or later (ms since the epoch).
        """
        table = self.load()
        if table is None:
            return set()
        actions = pa.table(table.get_add_actions(flatten=True))
        times = actions["modification_time"].cast(pa.timestamp("ms")).cast(pa.int64()).to_pylist()
        return {
            f"{self.name}/{path}"
            for path, at in zip(actions["path"].to_pylist(), times, strict=True)
            if at >= since_ms
        }

    def list_columns(self) -> set[str]:
        """Return the names of the columns that the table has now; none if nothing was ever
        committed.
        """
        table = self.load()
        return set() if table is None else {field.name for field in table.schema().fields}

    def progress_of(self, application: str) -> int | None:
        table = self.load()
        return None if table is None else table.transaction_version(application)

    def commit(self, files: Iterable[DataFile], decide: Decide) -> int | None:
        """Add files, and return the version that has them; None if `decide` found that nothing is
        to be added.
        """
        actions: list[AddAction | RemoveAction] = [self._describe(file) for file in files]
        while True:
            table = self._load_for_commit()
            carried = decide(table)
            if carried is None:
                return None
            following = table.version() + 1
            if self._try_commit(table, actions, carried):
                return following

    def replace(self, old: Iterable[DataFile], new: Iterable[DataFile], *, after: int) -> None:
        """Put files in place of others, as the commit after version `after`. Raises Conflict if
        there is a later version.
        """
        table = self._load_for_commit()
        if table.version() != after or not self._try_commit(
            table, [*map(self._describe, new), *map(self._remove, old)], []
        ):
            raise Conflict(f"{self.name}: another job committed after version {after}; start again")

    def rewrite(self, change: Change) -> int | None:
        """Put files in place of others, chosen on a fresh snapshot, as exactly the next commit;
        return its version.

        None: there was nothing to change. If another writer was first, `change` is asked again.
        """
        while True:
            table = self._load_for_commit()
            old, new = change(table, self._read_files(table))
            if not old and not new:
                return None
            following = table.version() + 1
            if self._try_commit(table, [*map(self._describe, new), *map(self._remove, old)], []):
                return following

    def _remove(self, file: DataFile) -> RemoveAction:
        return RemoveAction(
            self._name(file), True, int(time.time() * 1000), file.bytes, self._find_values(file)
        )

    def _try_commit(
        self,
        table: DeltaTable,
        actions: list[AddAction | RemoveAction],
        carried: Sequence[Transaction],
    ) -> bool:
        """False: another writer committed that version.

        A bucket that stored the commit and answered with an error refuses the library's second put:
        so each commit carries an id.
        """
        before, commit_id = table.version(), uuid4().hex
        self._require_written(action for action in actions if isinstance(action, AddAction))
        try:
            table.create_write_transaction(
                actions,
                "append",
                self._schema,
                self._partitions,
                commit_properties=CommitProperties(
                    custom_metadata={COMMIT_ID: commit_id},
                    max_commit_retries=NO_REBASE,
                    app_transactions=list(carried),
                ),
                post_commithook_properties=AFTER_COMMIT,
            )
        except CommitFailedError as exc:
            table.update_incremental()
            if table.version() == before:
                raise Conflict(f"{self.name}: its commit {before + 1} was refused: {exc}") from exc
            return _find_commit_id(table, before + 1) == commit_id
        return True

    def _require_written(self, added: Iterable[AddAction]) -> None:
        """Raises Conflict. A vacuum deletes what is in no commit and looks old: of a job that took
        hours, or stood still.
        """
        if gone := self._storage.find_missing([f"{self.name}/{action.path}" for action in added]):
            raise Conflict(
                f"{gone[0]} and {len(gone) - 1} more files were deleted before this job "
                "committed them, by a vacuum beside it: run it again"
            )

    def _load_for_commit(self) -> DeltaTable:
        table = self.load() or self._create()
        missing = [
            field
            for field in self._schema
            if field.name not in {present.name for present in table.schema().fields}
        ]
        if missing:
            table.alter.add_columns(
                [Field.from_arrow(field) for field in missing],
                post_commithook_properties=AFTER_COMMIT,
            )
            table.update_incremental()
        return table

    def _create(self) -> DeltaTable:
        self._storage.make_directory(self.name)
        self._table = DeltaTable.create(
            self._storage.uri(self.name),
            self._schema,
            mode="ignore",
            partition_by=self._partitions,
            configuration={
                "delta.checkpointInterval": CHECKPOINT_INTERVAL,
                **KEPT_LOG,
                **self._make_index_options(),
            },
        )
        return self._table

    def _make_index_options(self) -> dict[str, str]:
        """A compaction tells the ends of this column, too."""
        return (
            {"delta.dataSkippingStatsColumns": self._ordered_by}
            if self._ordered_by in self._schema.names
            else {}
        )

    def _describe(self, file: DataFile) -> AddAction:
        stats: dict[str, object] = {"numRecords": file.rows}
        if file.min_seq is not None:
            name = self._ordered_by
            stats |= {
                "minValues": {name: file.min_seq},
                "maxValues": {name: file.max_seq},
                "nullCount": {name: 0},
            }
        return AddAction(
            path=self._name(file),
            size=file.bytes,
            partition_values=self._find_values(file),
            modification_time=int(time.time() * 1000),
            data_change=True,
            stats=msgspec.json.encode(stats).decode(),
        )

    def _name(self, file: DataFile) -> str:
        return file.path.removeprefix(f"{self.name}/")

    def _find_values(self, file: DataFile) -> dict[str, str | None]:
        values = {"day": file.day, "bucket": None if file.bucket is None else str(file.bucket)}
        return {name: values[name] for name in self._partitions}

    def _read_files(self, table: DeltaTable) -> list[DataFile]:
        actions = pa.table(table.get_add_actions(flatten=True))
        ends = (f"min.{self._ordered_by}", f"max.{self._ordered_by}")
        names = (
            "modification_time",
            "path",
            "num_records",
            "size_bytes",
            *ends,
            "partition.day",
            "partition.bucket",
        )
        nothing = [None] * len(actions)
        columns = (
            actions[name].to_pylist() if name in actions.column_names else nothing for name in names
        )
        return [
            DataFile(
                path=f"{self.name}/{path}",
                rows=rows or 0,
                bytes=size,
                min_seq=low,
                max_seq=high,
                day=day,
                bucket=bucket,
            )
            for _, path, rows, size, low, high, day, bucket in sorted(
                zip(*columns, strict=True), key=lambda row: row[:2]
            )
        ]


def _find_commit_id(table: DeltaTable, version: int) -> object:
    """Return the id of a commit; None if it has none."""
    commits = table.history(table.version() - version + 1)
    return next((commit.get(COMMIT_ID) for commit in commits if commit["version"] == version), None)


# -- The log of a table is never cut: a seal is read as of a version, for ever, and a version is
# read by its log. By default delta-rs deletes entries that are older than thirty days after a
# commit that follows a checkpoint, and so do other tools. A table says that they must not; a
# table that does not say it yet gets the property before anything but a commit of ours changes
# it.

_LOG_CLEANUP = "delta.enableExpiredLogCleanup"
KEPT_LOG = MappingProxyType({_LOG_CLEANUP: "false"})  # properties of a table
AFTER_COMMIT = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


def keep_log(table: DeltaTable) -> None:
    """Say in the table that its log is kept, if it does not say so yet. Raises CommitFailedError if
    that is refused.
    """
    while table.metadata().configuration.get(_LOG_CLEANUP) != KEPT_LOG[_LOG_CLEANUP]:
        before = table.version()
        try:
            table.alter.set_table_properties(
                dict(KEPT_LOG), post_commithook_properties=AFTER_COMMIT
            )
        except CommitFailedError:
            table.update_incremental()
            if table.version() == before:
                raise
        table.update_incremental()
