"""`router usage seal`: close a period, list the closed ones, verify that they still read the same."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from router.lake.commands.command import warehouse_command
from router.lake.commands.options import WAREHOUSE, WarehouseAt, open_warehouse
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, skip_settings

if TYPE_CHECKING:
    from router.lake.warehouse import Seal

COLUMNS = ("from", "to", "sequence", "cut", "rows", "hash", "reads the same")

FirstDay = Annotated[datetime | None, typer.Option("--from", metavar="DAY", formats=["%Y-%m-%d"], help="The first day, UTC.")]
LastDay = Annotated[datetime | None, typer.Option("--to", metavar="DAY", formats=["%Y-%m-%d"], help="The last day. Default: the first.")]
Verify = Annotated[bool, typer.Option("--verify", help="Read every sealed period again and compare its hash.")]


@warehouse_command(skip_settings)
def seal(
    session: CommandSession, first: FirstDay = None, last: LastDay = None, verify: Verify = False, warehouse: WarehouseAt = WAREHOUSE
) -> int:
    """Close the days from --from to --to; without them, list the closed periods.

    A later event of a closed day becomes a correction in the day on which it arrives. Exit status: 1 if --verify finds a difference.

    Example:  router usage seal --from 2026-10-01 --to 2026-10-31
    """
    if first is None and last is not None:
        raise typer.BadParameter("--to goes with --from")
    from msgspec import to_builtins

    at = open_warehouse(warehouse)
    from router.lake.jobs import seal as job

    seals = at.seals() if first is None else [job.seal(at, first.date(), (last or first).date())]
    held = [(one, job.is_unchanged(at, one) if verify else None) for one in seals]
    session.emit(
        held,
        COLUMNS,
        lambda one: _build_row(*one),
        lambda one: {**to_builtins(one[0]), **({} if one[1] is None else {"holds": one[1]})},
        empty="no period is sealed",
    )
    return exit_codes.NO if any(holds is False for _, holds in held) else exit_codes.OK


def _build_row(one: Seal, holds: bool | None) -> tuple[object, ...]:
    verdict = {None: None, True: "ok", False: "fail"}[holds]
    return (one.first_day, one.last_day, one.sequence, one.cut, one.rows, one.hash[:16], verdict)
