"""`router usage export`: write the sums of a period into a file, for those who bill, and for FinOps tools."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from router.lake.commands.command import warehouse_command
from router.lake.commands.options import WAREHOUSE, AsOfCut, WarehouseAt, open_warehouse
from router.shell import exit_codes
from router.shell.command_frame import CommandSession


class Form(StrEnum):
    """What the file has."""

    FOCUS = "focus"
    PARQUET = "parquet"
    CSV = "csv"


PeriodText = Annotated[str, typer.Option("--period", metavar="PERIOD", help="2026-10, 2026-10-05 or 2026-10-01..2026-10-15; UTC.")]
Output = Annotated[Path, typer.Option("--output", metavar="FILE", help="Replaced when the whole of it is written.", dir_okay=False)]
FormOption = Annotated[Form, typer.Option("--format", help="focus: the columns of FOCUS 1.2, CSV, or Parquet if FILE ends in .parquet.")]


@warehouse_command()
def export(
    session: CommandSession,
    *,
    period: PeriodText,
    output: Output,
    form: FormOption = Form.FOCUS,
    as_of_cut: AsOfCut = None,
    warehouse: WarehouseAt = WAREHOUSE,
) -> int:
    """Export the sums of each day, tenant, provider, type, status and model, as of one cut. Costs are in `usage.currency`.

    An event of a sealed day is in the export of the day on which it came, and says which day it corrects. Adjustments are rows of
    their own. What results of unknown assignments told is in no cost.

    Exit status: 0 there is usage, 1 there is none, and the file has no rows.

    Example:  router usage export --period 2026-10 --format focus --output usage-2026-10.csv
    """
    at = open_warehouse(warehouse)
    from router.lake.report.export import export as write_period
    from router.lake.report.export import parse_period

    currency = session.settings.usage.currency
    done = write_period(at, parse_period(period), form.value, output, currency=currency, as_of_cut=as_of_cut)
    fields = {"rows": done.rows, "days": done.days, "cut": done.cut, "currency": currency, "file": str(output)}
    session.emit_one(fields, f"{done.rows} rows of {done.days} days as of cut {done.cut}, in {currency}: {output}")
    return exit_codes.OK if done.rows else exit_codes.NO
