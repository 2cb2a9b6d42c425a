"""`router usage report`: print the warehouse's gold as a table, as JSON or CSV, and as a page with charts."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.core.whole_files import replace_file
from router.lake.commands.command import warehouse_command
from router.lake.commands.options import WAREHOUSE, AsOfCut, Master, WarehouseAt, open_spark, open_warehouse
from router.lake.commands.print_report import print_report
from router.shell import exit_codes
from router.shell.command_frame import CommandSession
from router.shell.output import show_progress

if TYPE_CHECKING:
    from router.lake.report import UsageQuery
    from router.lake.report.partials import ReportPart
    from router.lake.warehouse import Warehouse

DEFAULT_DIMENSIONS = "day,tenant,provider"  # a screen's worth; programs get every dimension


class Engine(StrEnum):
    """The program that reads the files."""

    PYARROW = "pyarrow"
    SPARK = "spark"


ByNames = Annotated[
    str | None,
    typer.Option(
        "--by", metavar="NAMES", help=f"Of tenant, provider, type, status, model, day. Default: {DEFAULT_DIMENSIONS}; in JSON and CSV all."
    ),
]
Days = Annotated[
    list[str] | None,
    typer.Option("--day", metavar="YYYY-MM-DD", help="UTC, of the events' timestamps (of sealed days: of their coming); may be repeated."),
]
Tenants = Annotated[list[str] | None, typer.Option("--tenant", metavar="ID", help="May be repeated.")]
Providers = Annotated[list[str] | None, typer.Option("--provider", metavar="ID", help="May be repeated.")]
ReadBy = Annotated[Engine, typer.Option("--engine", help="spark: for a warehouse that only a cluster reaches.")]
Page = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Also write one page with charts; nothing in it is fetched.", dir_okay=False)
]
AsCsv = Annotated[bool, typer.Option("--csv", help="CSV for spreadsheets.")]


@warehouse_command()
def report(
    session: CommandSession,
    *,
    warehouse: WarehouseAt = WAREHOUSE,
    by: ByNames = None,
    day: Days = None,
    tenant: Tenants = None,
    provider: Providers = None,
    as_of_cut: AsOfCut = None,
    engine: ReadBy = Engine.PYARROW,
    master: Master = None,
    html: Page = None,
    as_csv: AsCsv = False,
) -> int:
    """Report usage: counts, exact costs, percentiles (within 1 %), error rates. Only --engine spark starts a JVM.

    Exit status: 0 there is usage, 1 there is none.

    Example:  router usage report --warehouse ./usage --day 2026-11-20 --by tenant,provider --html usage.html
    """
    found, is_for_programs = open_warehouse(warehouse), session.as_json or as_csv
    from router.lake.report import DIMENSIONS, UsageQuery, make_report, parse_days, parse_dimensions

    wanted = parse_dimensions((by or (",".join(DIMENSIONS) if is_for_programs else DEFAULT_DIMENSIONS)).split(","))
    query = UsageQuery(
        by=_choose_columns(wanted, html), days=parse_days(day or ()), tenants=tuple(tenant or ()), providers=tuple(provider or ())
    )
    with replace_file(html) if html is not None else nullcontext() as page:
        parts = _read_parts(found, query, as_of_cut, engine, master, is_quiet=is_for_programs)
        if page is not None:
            parts = list(parts)  # for several reports
            cut = min(as_of_cut or found.head(), found.head())
            page.write(_render_page(parts, query, cut, session.settings.usage.currency).encode())
    made = make_report(parts, wanted, session.settings.usage.currency)
    print_report(made, as_json=session.as_json, as_csv=as_csv)
    return exit_codes.OK if made.totals is not None else exit_codes.NO


def _choose_columns(wanted: tuple[str, ...], html: Path | None) -> tuple[str, ...]:
    """Return the columns to read by: with a page also those that it needs, so that files are read once."""
    if html is None:
        return wanted
    from router.lake.report.page import PAGE_COLUMNS as OF_THE_PAGE

    return tuple(dict.fromkeys((*wanted, *OF_THE_PAGE)))


def _read_parts(
    found: Warehouse, query: UsageQuery, as_of_cut: int | None, engine: Engine, master: str | None, *, is_quiet: bool
) -> Iterable[ReportPart]:
    if engine is Engine.SPARK:
        yield from _read_parts_by_spark(found, query, as_of_cut, master)
        return
    from router.lake.report.read import read_parts

    with show_progress("reading", is_quiet=is_quiet) as advance:
        yield from read_parts(found, query, as_of_cut, advance)


def _read_parts_by_spark(found: Warehouse, query: UsageQuery, as_of_cut: int | None, master: str | None) -> list[ReportPart]:
    with open_spark(master) as spark:
        from router.lake.report.by_spark import read_parts_by_spark

        return read_parts_by_spark(spark, found, query, as_of_cut)


def _render_page(parts: list[ReportPart], query: UsageQuery, cut: int, currency: str) -> str:
    from router.lake.report.page import render_page

    filters = (("day", query.days), ("tenant", query.tenants), ("provider", query.providers))
    selection = "; ".join(f"{name} {', '.join(values)}" for name, values in filters if values)
    return render_page(parts, f"{selection or 'All events'}. The warehouse as of cut {cut}. Costs in {currency}.")
