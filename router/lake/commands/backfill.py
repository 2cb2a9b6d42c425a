"""`router usage backfill`: make days again from bronze, after showing the difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import to_builtins

from router.lake.commands.command import warehouse_command
from router.lake.commands.options import WAREHOUSE, Master, WarehouseAt, open_spark, open_warehouse
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, skip_settings
from router.shell.option_values import confirm
from router.shell.output import build_grid, open_console

if TYPE_CHECKING:
    from rich.status import Status

    from router.lake.jobs.backfill import Backfill, BackfillDifference
    from router.lake.warehouse import Warehouse

MAX_DAYS = 3660

FirstDay = Annotated[datetime, typer.Option("--from", metavar="DAY", formats=["%Y-%m-%d"], help="The first day of events, UTC.")]
LastDay = Annotated[datetime | None, typer.Option("--to", metavar="DAY", formats=["%Y-%m-%d"], help="The last. Default: the first.")]
Yes = Annotated[bool, typer.Option("--yes", help="Write without asking.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show the difference.")]


@warehouse_command(skip_settings)
def backfill(
    session: CommandSession,
    *,
    first: FirstDay,
    last: LastDay = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    master: Master = None,
    warehouse: WarehouseAt = WAREHOUSE,
) -> int:
    """Make silver and gold of these days again from bronze. Without a difference nothing is written, but the cut of a backfill that died.

    Exit status: 0 no difference, or it was written; 1 there is one, and it was not written.

    Example:  router usage backfill --from 2026-11-01 --to 2026-11-03 --dry-run
    """
    last = last or first
    if not 0 <= (last - first).days < MAX_DAYS:
        raise typer.BadParameter(f"at most {MAX_DAYS} days, and --from is the first of them", param_hint="--to")
    at = open_warehouse(warehouse)
    with _open_backfill(at, first.date(), last.date(), master) as (work, found):
        fields = {**to_builtins(found), "cost_now": f"{found.cost_now:.9f}", "cost_then": f"{found.cost_then:.9f}"}
        session.emit_one(fields, lambda: _print_difference(found, fields))
        is_mended = found.is_none or (not dry_run and (yes or (not session.as_json and confirm("Write it?"))))
        if is_mended and not dry_run:
            with _show_status("writing"):
                work.show() if found.is_none else work.apply()
    return exit_codes.OK if is_mended else exit_codes.NO


@contextmanager
def _open_backfill(at: Warehouse, first: date, last: date, master: str | None) -> Iterator[tuple[Backfill, BackfillDifference]]:
    with open_spark(master) as spark:
        from router.lake.jobs.backfill import Backfill

        with _show_status("reading bronze again"):
            work = Backfill(spark, at, first, last)
            found = work.compare()
        yield work, found


def _show_status(what: str) -> Status:
    from rich.console import Console

    return Console(stderr=True).status(what)


def _print_difference(found: BackfillDifference, fields: Mapping[str, object]) -> None:
    if found.is_none:
        print("no difference: the tables are what bronze gives")
    else:
        open_console().print(build_grid((name.replace("_", " "), value) for name, value in fields.items()))
