"""Commits of a warehouse as a test wants them: files into tables, and their cut."""

from collections.abc import Mapping, Sequence

from deltalake import Transaction

from router.lake.warehouse import Cut, DataFile, Progress, Warehouse
from router.lake.warehouse.commit import CutKind


def add_files(
    warehouse: Warehouse, files: Mapping[str, Sequence[DataFile]], progress: Progress | None = None
) -> Cut:
    """One batch: every table has its commit, and then its cut."""
    carried = [] if progress is None else [Transaction(progress.application, progress.last)]
    for name, table in warehouse.tables.items():
        table.commit(files.get(name, ()), lambda _: carried)
    return _append_cut(warehouse, "ingest", progress)


def replace_files(
    warehouse: Warehouse, table: str, old: Sequence[DataFile], new: Sequence[DataFile] = ()
) -> Cut:
    """Files in place of others, or of nothing, and the cut."""
    warehouse.tables[table].replace(old, new, after=read_versions(warehouse)[table])
    return _append_cut(warehouse, "backfill")


def _append_cut(warehouse: Warehouse, kind: CutKind, progress: Progress | None = None) -> Cut:
    cut = warehouse.append_cut(kind, read_versions(warehouse), progress)
    assert cut is not None
    return cut


def read_versions(warehouse: Warehouse) -> dict[str, int]:
    snapshots = {name: table.load() for name, table in warehouse.tables.items()}
    return {
        name: snapshot.version() for name, snapshot in snapshots.items() if snapshot is not None
    }
