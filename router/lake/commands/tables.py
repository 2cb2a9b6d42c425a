"""`router usage schema`, `compact`, `vacuum`: print the columns; merge small files; delete files that no version needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated

import typer

from router.lake.commands.command import warehouse_command
from router.lake.commands.options import WAREHOUSE, WarehouseAt, open_warehouse
from router.shell.command_frame import CommandSession, command, skip_settings
from router.shell.output import build_heading, build_table, open_console

MOST_HOURS = 876_000  # a hundred years

Only = Annotated[str | None, typer.Argument(metavar="TABLE", help="One table. Default: all.")]
Hours = Annotated[
    int, typer.Option("--older-than", metavar="HOURS", help="Versions and files of the last hours stay.", min=1, max=MOST_HOURS)
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count.")]


@command(skip_settings)
def schema(session: CommandSession, name: Only = None) -> None:
    """Print the tables' columns and types. `day` is the directory a file lies in, and in no file.

    Example:  router usage schema silver
    """
    from router.core.errors import Misconfigured
    from router.lake.tables.schemas import TABLE_DESCRIPTIONS, list_columns

    if name is not None and name not in TABLE_DESCRIPTIONS:
        raise Misconfigured("TABLE", f"{name!r} is none of {', '.join(TABLE_DESCRIPTIONS)}")
    columns = {one: list_columns(one) for one in ([name] if name is not None else TABLE_DESCRIPTIONS)}
    fields = {one: {"about": TABLE_DESCRIPTIONS[one], "columns": dict(columns[one])} for one in columns}
    session.emit_one(fields, lambda: _print_columns(columns))


@warehouse_command(skip_settings)
def compact(session: CommandSession, warehouse: WarehouseAt = WAREHOUSE) -> None:
    """Merge files: fewer files, the same rows; also beside a running ingest. Reads as of an earlier cut keep working until `vacuum`.

    Example:  router usage compact
    """
    at = open_warehouse(warehouse)
    from router.lake.jobs.maintenance import compact as merge_files

    made = merge_files(at)
    fields = {"files_before": made.files_before, "files_after": made.files_after}
    session.emit_one(fields, f"{made.files_before} files became {made.files_after}")


@warehouse_command(skip_settings)
def vacuum(session: CommandSession, older_than: Hours = 168, dry_run: DryRun = False, warehouse: WarehouseAt = WAREHOUSE) -> None:
    """Delete files that no recent version needs: of dead jobs, and those that a compaction or an erasure replaced.

    Sealed periods and the newest cut stay readable; other cuts older than --older-than do not.

    Example:  router usage vacuum --older-than 24 --dry-run
    """
    at = open_warehouse(warehouse)
    from router.lake.jobs.maintenance import vacuum as delete_files

    removed = delete_files(at, older_than=timedelta(hours=older_than), dry_run=dry_run)
    verb = "would be deleted" if dry_run else "deleted"
    session.emit_one({"files": len(removed), "dry_run": dry_run}, f"{len(removed)} files {verb}")


def _print_columns(columns: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    from router.lake.tables.schemas import TABLE_DESCRIPTIONS

    for name, pairs in columns.items():
        open_console().print(build_heading(f"{name}: {TABLE_DESCRIPTIONS[name]}"), build_table(("column", "type"), pairs))
