"""Commits of a warehouse as a test wants them: files into tables, and their cut."""

from collections.abc import Mapping, Sequence

from deltalake import Transaction

from router.lake.warehouse import Cut, DataFile, Progress, Warehouse


def add_files(warehouse: Warehouse, files: Mapping[str, Sequence[DataFile]], progress: Progress | None = None) -> Cut:
    """One batch: every table has its commit, and then its cut."""
    carried = [] if progress is None else [Transaction(progress.application, progress.last)]
    for name, table in warehouse.tables.items():
        table.commit(files.get(name, ()), lambda _: carried)
    return warehouse.append_cut("ingest", read_versions(warehouse), progress)


def replace_files(warehouse: Warehouse, table: str, old: Sequence[DataFile], new: Sequence[DataFile] = ()) -> Cut:
    """Files in place of others, or of nothing, and the cut."""
    warehouse.tables[table].replace(old, new, after=read_versions(warehouse)[table])
    return warehouse.append_cut("backfill", read_versions(warehouse))


def read_versions(warehouse: Warehouse) -> dict[str, int]:
    snapshots = {name: table.load() for name, table in warehouse.tables.items()}
    return {name: one.version() for name, one in snapshots.items() if one is not None}
