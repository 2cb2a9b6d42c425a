"""`router usage seal`: close a period, list the closed ones, verify that they still read the same."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import exit_codes
from router.cli.options import AsJson
from router.cli.output import print_records
from router.cli.usage.options import WAREHOUSE, WarehouseAt, open_warehouse

if TYPE_CHECKING:
    from router.lake.warehouse import Seal

COLUMNS = ("from", "to", "sequence", "commit", "rows", "hash", "reads the same")

FirstDay = Annotated[datetime | None, typer.Option("--from", metavar="DAY", formats=["%Y-%m-%d"], help="The first day, UTC.")]
LastDay = Annotated[datetime | None, typer.Option("--to", metavar="DAY", formats=["%Y-%m-%d"], help="The last day. Default: the first.")]
Verify = Annotated[bool, typer.Option("--verify", help="Read every sealed period again and compare its hash.")]


def seal(
    first: FirstDay = None, last: LastDay = None, verify: Verify = False, warehouse: WarehouseAt = WAREHOUSE, as_json: AsJson = False
) -> None:
    """Close the days from --from to --to; without them, list the closed periods.

    A later event of a closed day becomes an adjustment of the day on which it arrives. Exit status: 1 if --verify finds a difference.

    Example:  router usage seal --from 2026-10-01 --to 2026-10-31
    """
    with exit_codes.report_errors():
        at = open_warehouse(warehouse)
        from router.lake.jobs import seal as job

        seals = at.seals() if first is None else [job.seal(at, first.date(), (last or first).date())]
        held = [job.is_unchanged(at, one) if verify else None for one in seals]
        _show(seals, held, as_json)
    raise typer.Exit(exit_codes.NO if False in held else exit_codes.OK)


def _show(seals: list[Seal], held: list[bool | None], as_json: bool) -> None:
    from msgspec import to_builtins

    print_records(
        ({**to_builtins(one), **({} if holds is None else {"holds": holds})} for one, holds in zip(seals, held, strict=True)),
        COLUMNS,
        (_row(one, holds) for one, holds in zip(seals, held, strict=True)),
        empty="no period is sealed",
        as_json=as_json,
    )


def _row(one: Seal, holds: bool | None) -> tuple[object, ...]:
    verdict = {None: None, True: "ok", False: "fail"}[holds]
    return (one.first_day, one.last_day, one.sequence, one.commit, one.rows, one.hash[:16], verdict)
