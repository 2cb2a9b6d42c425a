"""`router usage seal`: close a period, list what is closed, prove that it still reads the same."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import ends
from router.cli.options import AsJson
from router.cli.output import print_lines, print_table
from router.cli.usage.options import WAREHOUSE, WarehouseAt, an_existing

if TYPE_CHECKING:
    from router.lake.warehouse import Seal

COLUMNS = ("from", "to", "sequence", "commit", "rows", "hash", "reads the same")

FirstDay = Annotated[datetime | None, typer.Option("--from", metavar="DAY", formats=["%Y-%m-%d"], help="The first day, UTC.")]
LastDay = Annotated[datetime | None, typer.Option("--to", metavar="DAY", formats=["%Y-%m-%d"], help="The last day. Default: the first.")]
Verify = Annotated[bool, typer.Option("--verify", help="Read every sealed period again and compare its hash.")]


def seal(
    first: FirstDay = None, last: LastDay = None, verify: Verify = False, warehouse: WarehouseAt = WAREHOUSE, as_json: AsJson = False
) -> None:
    """Close the days from --from to --to; without them, list what is closed.

    What comes later for a closed day is an adjustment of the day it comes in. Exit status: 1 where --verify finds a difference.

    Example:  router usage seal --from 2026-10-01 --to 2026-10-31
    """
    with ends.errors_told():
        at = an_existing(warehouse)
        from router.lake.jobs import seal as job

        told = at.seals() if first is None else [job.seal(at, first.date(), (last or first).date())]
        held = [job.is_unchanged(at, one) if verify else None for one in told]
        _show(told, held, as_json)
    raise typer.Exit(ends.NO if False in held else ends.OK)


def _show(seals: list[Seal], held: list[bool | None], as_json: bool) -> None:
    from msgspec import to_builtins

    if as_json:
        print_lines({**to_builtins(one), **({} if holds is None else {"holds": holds})} for one, holds in zip(seals, held, strict=True))
    elif seals:
        print_table(COLUMNS, (_row(one, holds) for one, holds in zip(seals, held, strict=True)))
    else:
        print("no period is sealed")


def _row(one: Seal, holds: bool | None) -> tuple[object, ...]:
    verdict = {None: None, True: "ok", False: "fail"}[holds]
    return (one.first_day, one.last_day, one.sequence, one.commit, one.rows, one.hash[:16], verdict)
