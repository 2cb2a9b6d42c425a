"""`router usage backfill`, `schema`, `compact`, `vacuum`: what the tables are, and how they are
kept.

backfill     make days again from bronze, after showing the difference
schema       the tables' columns
compact      fewer files, the same rows
vacuum       delete files that no recent version needs
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import to_builtins
from rich.console import Console
from rich.status import Status

from router.core.errors import Misconfigured
from router.lake.commands.command import (
    WAREHOUSE,
    Master,
    WarehouseAt,
    open_spark,
    open_warehouse,
    warehouse_command,
)
from router.lake.tables.schemas import TABLE_DESCRIPTIONS, list_columns
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command, skip_settings
from router.shell.options import confirm
from router.shell.output import build_heading, build_table, open_console, print_fields

if TYPE_CHECKING:
    from router.lake.jobs.backfill import Backfill, BackfillDifference
    from router.lake.warehouse import Warehouse

# -- `router usage schema`, `compact` and `vacuum`.

MOST_HOURS = 876_000  # a hundred years

Only = Annotated[str | None, typer.Argument(metavar="TABLE", help="One table. Default: all.")]
Hours = Annotated[
    int,
    typer.Option(
        "--older-than",
        metavar="HOURS",
        help="Versions and files of the last hours stay.",
        min=1,
        max=MOST_HOURS,
    ),
]
VacuumDryRun = Annotated[bool, typer.Option("--dry-run", help="Only count.")]


@command(skip_settings)
def schema(session: CommandSession, name: Only = None) -> None:
    """Print the tables' columns and types. `day` is the directory a file lies in, and in no file.

    Example:  router usage schema silver
    """
    if name is not None and name not in TABLE_DESCRIPTIONS:
        raise Misconfigured("TABLE", f"{name!r} is none of {', '.join(TABLE_DESCRIPTIONS)}")
    columns = {
        table: list_columns(table) for table in ([name] if name is not None else TABLE_DESCRIPTIONS)
    }
    fields = {
        table: {"about": TABLE_DESCRIPTIONS[table], "columns": dict(columns[table])}
        for table in columns
    }
    session.emit_one(fields, lambda: _print_columns(columns))


@warehouse_command(skip_settings)
def compact(session: CommandSession, warehouse: WarehouseAt = WAREHOUSE) -> None:
    """Merge files: fewer files, the same rows; also beside a running ingest. Reads as of an earlier
    cut keep working until `vacuum`.

    Example:  router usage compact
    """
    at = open_warehouse(warehouse)
    from router.lake.jobs.maintenance import compact as merge_files

    made = merge_files(at)
    fields = {"files_before": made.files_before, "files_after": made.files_after}
    session.emit_one(fields, f"{made.files_before} files became {made.files_after}")


@warehouse_command(skip_settings)
def vacuum(
    session: CommandSession,
    older_than: Hours = 168,
    dry_run: VacuumDryRun = False,
    warehouse: WarehouseAt = WAREHOUSE,
) -> None:
    """Delete files that no recent version needs: of dead jobs, and those that a compaction or an
    erasure replaced.

    Sealed periods and the newest cut stay readable; other cuts older than --older-than do not.

    Example:  router usage vacuum --older-than 24 --dry-run
    """
    at = open_warehouse(warehouse)
    from router.lake.jobs.maintenance import vacuum as delete_files

    removed = delete_files(at, older_than=timedelta(hours=older_than), dry_run=dry_run)
    verb = "would be deleted" if dry_run else "deleted"
    session.emit_one({"files": len(removed), "dry_run": dry_run}, f"{len(removed)} files {verb}")


def _print_columns(columns: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    for name, pairs in columns.items():
        open_console().print(
            build_heading(f"{name}: {TABLE_DESCRIPTIONS[name]}"),
            build_table(("column", "type"), pairs),
        )


# -- `router usage backfill`.

MAX_BACKFILL_DAYS = 3660

FirstDay = Annotated[
    datetime,
    typer.Option(
        "--from", metavar="DAY", formats=["%Y-%m-%d"], help="The first day of events, UTC."
    ),
]
LastDay = Annotated[
    datetime | None,
    typer.Option("--to", metavar="DAY", formats=["%Y-%m-%d"], help="The last. Default: the first."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Write without asking.")]
BackfillDryRun = Annotated[bool, typer.Option("--dry-run", help="Only show the difference.")]


@warehouse_command(skip_settings)
def backfill(
    session: CommandSession,
    *,
    first: FirstDay,
    last: LastDay = None,
    yes: Yes = False,
    dry_run: BackfillDryRun = False,
    master: Master = None,
    warehouse: WarehouseAt = WAREHOUSE,
) -> int:
    """Make silver and gold of these days again from bronze. Without a difference nothing is
    written, but the cut of a backfill that died.

    Exit status: 0 no difference, or it was written; 1 there is one, and it was not written.

    Example:  router usage backfill --from 2026-11-01 --to 2026-11-03 --dry-run
    """
    last = last or first
    if not 0 <= (last - first).days < MAX_BACKFILL_DAYS:
        raise typer.BadParameter(
            f"at most {MAX_BACKFILL_DAYS} days, and --from is the first of them", param_hint="--to"
        )
    at = open_warehouse(warehouse)
    with _open_backfill(at, first.date(), last.date(), master) as (work, difference):
        fields = {
            **to_builtins(difference),
            "cost_now": f"{difference.cost_now:.9f}",
            "cost_then": f"{difference.cost_then:.9f}",
        }
        session.emit_one(fields, lambda: _print_difference(difference, fields))
        is_mended = difference.is_none or (
            not dry_run and (yes or (not session.as_json and confirm("Write it?")))
        )
        if is_mended and not dry_run:
            with _show_status("writing"):
                work.show() if difference.is_none else work.apply()
    return exit_codes.OK if is_mended else exit_codes.NO


@contextmanager
def _open_backfill(
    at: Warehouse, first: date, last: date, master: str | None
) -> Iterator[tuple[Backfill, BackfillDifference]]:
    with open_spark(master) as spark:
        from router.lake.jobs.backfill import Backfill

        with _show_status("reading bronze again"):
            work = Backfill(spark, at, first, last)
            difference = work.compare()
        yield work, difference


def _show_status(what: str) -> Status:
    return Console(stderr=True).status(what)


def _print_difference(difference: BackfillDifference, fields: Mapping[str, object]) -> None:
    if difference.is_none:
        print("no difference: the tables are what bronze gives")
    else:
        print_fields(fields)
