"""`router usage erase`: take a tenant's rows out of every table."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from router.lake.commands.command import warehouse_command
from router.lake.commands.options import WAREHOUSE, WarehouseAt, open_warehouse
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, skip_settings
from router.shell.option_values import confirm
from router.shell.output import build_table, open_console

if TYPE_CHECKING:
    from router.lake.jobs.erase import EraseResult

Tenant = Annotated[str, typer.Option("--tenant", metavar="ID", help="Whose rows.")]
Before = Annotated[
    datetime | None, typer.Option("--before", metavar="DAY", formats=["%Y-%m-%d"], help="Only events of earlier days, UTC. Default: all.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


@warehouse_command(skip_settings)
def erase(
    session: CommandSession,
    *,
    tenant: Tenant,
    before: Before = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    warehouse: WarehouseAt = WAREHOUSE,
) -> int:
    """Erase a tenant's rows from every table, also beside a running ingest. Sealed periods keep every other row.

    Files that held the rows are deleted an hour later, by `router usage vacuum --older-than 1` or by this command again: a running
    ingest may read them until then. The stream keeps its messages until its own retention ends.

    Exit status: 0 no row is left, 1 there are rows: not confirmed, --dry-run, or new ones came meanwhile.

    Example:  router usage erase --tenant acme --before 2026-01-01 --dry-run
    """
    at = open_warehouse(warehouse)
    from router.lake.jobs.erase import erase as erase_rows

    limit = None if before is None else before.date()
    if not dry_run and not yes:
        count = erase_rows(at, tenant, before=limit, dry_run=True).rows["bronze"]
        if not confirm(f"Erase {count} messages of {tenant}, and what was made of them, for good?"):
            return exit_codes.NO
    done = erase_rows(at, tenant, before=limit, dry_run=dry_run)
    session.emit_one({**_build_fields(done), "dry_run": dry_run}, lambda: _print_result(done, dry_run=dry_run))
    return exit_codes.NO if any(done.left.values()) else exit_codes.OK


def _build_fields(done: EraseResult) -> Mapping[str, object]:
    gone_after = None if done.gone_after is None else done.gone_after.isoformat()
    names = ("sequence", "rows", "left", "resealed", "deleted")
    return {**{name: getattr(done, name) for name in names}, "gone_after": gone_after}


def _print_result(done: EraseResult, *, dry_run: bool) -> None:
    head = ("table", "would go" if dry_run else "erased", "left")
    open_console().print(build_table(head, ((table, done.rows[table], done.left.get(table)) for table in done.rows)))
    if dry_run:
        return
    if done.resealed:
        print(f"{done.resealed} sealed periods are read as of a later cut; `router usage seal --verify` holds them")
    if done.gone_after is not None:
        until = done.gone_after.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
        print(f"files that held the rows are on the disk until `router usage vacuum --older-than 1` runs after {until}")
    if any(done.left.values()):
        print(f"what is left came after sequence {done.sequence} of the stream, while this ran: run it again")
