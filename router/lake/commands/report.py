"""`router usage report` and `export`: gold as a table, as JSON or CSV, as a page with charts, and
as a file for those who bill.

The print of a report stands first, then `export`, which writes the sums of a period for those who
bill and for FinOps tools, then `report`.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.core.legible import escape_cell
from router.core.whole_files import replace_file
from router.lake.commands.command import (
    WAREHOUSE,
    AsOfCut,
    Master,
    WarehouseAt,
    open_spark,
    open_warehouse,
    warehouse_command,
)
from router.lake.views import RARE_FIGURES, format_heading, make_usage_view
from router.shell import exit_codes
from router.shell.command_frame import CommandSession
from router.shell.output import (
    build_cell,
    build_table,
    format_json,
    open_console,
    print_json,
    show_progress,
)

if TYPE_CHECKING:
    from router.lake.report import ReportLine, UsageQuery, UsageReport
    from router.lake.report.partials import ReportPart
    from router.lake.warehouse import Warehouse

# -- `router usage report`.

DEFAULT_DIMENSIONS = "day,tenant,provider"  # a screen's worth; programs get every dimension


class Engine(StrEnum):
    """The program that reads the files."""

    PYARROW = "pyarrow"
    SPARK = "spark"


ByNames = Annotated[
    str | None,
    typer.Option(
        "--by",
        metavar="NAMES",
        help=(
            f"Of tenant, provider, type, status, model, day. Default: {DEFAULT_DIMENSIONS}; in "
            "JSON and CSV all."
        ),
    ),
]
Days = Annotated[
    list[str] | None,
    typer.Option(
        "--day",
        metavar="YYYY-MM-DD",
        help="UTC, of the events' timestamps (of sealed days: of their coming); may be repeated.",
    ),
]
Tenants = Annotated[
    list[str] | None, typer.Option("--tenant", metavar="ID", help="May be repeated.")
]
Providers = Annotated[
    list[str] | None, typer.Option("--provider", metavar="ID", help="May be repeated.")
]
ReadBy = Annotated[
    Engine, typer.Option("--engine", help="spark: for a warehouse that only a cluster reaches.")
]
Page = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="FILE",
        help="Also write one page with charts; nothing in it is fetched.",
        dir_okay=False,
    ),
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
    """Report usage: counts, exact costs, percentiles (within 1 %), error rates. Only --engine spark
    starts a JVM.

    Exit status: 0 there is usage, 1 there is none.

    Example:  router usage report --warehouse ./usage --day 2026-11-20 --by tenant,provider --html usage.html
    """
    opened, is_for_programs = open_warehouse(warehouse), session.as_json or as_csv
    from router.lake.report import DIMENSIONS, UsageQuery, make_report, parse_days, parse_dimensions

    wanted = parse_dimensions(
        (by or (",".join(DIMENSIONS) if is_for_programs else DEFAULT_DIMENSIONS)).split(",")
    )
    query = UsageQuery(
        by=_choose_columns(wanted, html),
        days=parse_days(day or ()),
        tenants=tuple(tenant or ()),
        providers=tuple(provider or ()),
    )
    with replace_file(html) if html is not None else nullcontext() as page:
        parts = _read_parts(opened, query, as_of_cut, engine, master, is_quiet=is_for_programs)
        if page is not None:
            parts = list(parts)  # for several reports
            cut = min(as_of_cut or opened.head(), opened.head())
            page.write(_render_page(parts, query, cut, session.settings.usage.currency).encode())
    made = make_report(parts, wanted, session.settings.usage.currency)
    print_report(made, as_json=session.as_json, as_csv=as_csv)
    return exit_codes.OK if made.totals is not None else exit_codes.NO


def _choose_columns(wanted: tuple[str, ...], html: Path | None) -> tuple[str, ...]:
    """Return the columns to read by: with a page also those that it needs, so that files are read
    once.
    """
    if html is None:
        return wanted
    from router.lake.report.page import PAGE_COLUMNS as OF_THE_PAGE

    return tuple(dict.fromkeys((*wanted, *OF_THE_PAGE)))


def _read_parts(
    opened: Warehouse,
    query: UsageQuery,
    as_of_cut: int | None,
    engine: Engine,
    master: str | None,
    *,
    is_quiet: bool,
) -> Iterable[ReportPart]:
    if engine is Engine.SPARK:
        yield from _read_parts_by_spark(opened, query, as_of_cut, master)
        return
    from router.lake.report.read import read_parts

    with show_progress("reading", is_quiet=is_quiet) as advance:
        yield from read_parts(opened, query, as_of_cut, advance)


def _read_parts_by_spark(
    opened: Warehouse, query: UsageQuery, as_of_cut: int | None, master: str | None
) -> list[ReportPart]:
    with open_spark(master) as spark:
        from router.lake.report.by_spark import read_parts_by_spark

        return read_parts_by_spark(spark, opened, query, as_of_cut)


def _render_page(parts: list[ReportPart], query: UsageQuery, cut: int, currency: str) -> str:
    from router.lake.report.page import render_page

    filters = (("day", query.days), ("tenant", query.tenants), ("provider", query.providers))
    selection = "; ".join(f"{name} {', '.join(values)}" for name, values in filters if values)
    return render_page(
        parts, f"{selection or 'All events'}. The warehouse as of cut {cut}. Costs in {currency}."
    )


# -- A report on a screen: a table, CSV or JSON.

MAX_SCREEN_ROWS = 200  # on a screen
EXPLAINED_FIGURES = {
    "adjustment_cost": "what adjustments added to the cost, or took from it",
    "correction_cost": "events of a day that was sealed already, counted on the day on which they came",
    "uncorrelated_cost": "what results of unknown assignments told; it is in no cost",
}


def print_report(made: UsageReport, *, as_json: bool, as_csv: bool) -> None:
    if as_json:
        _print_json(made)
    elif as_csv:
        _print_csv(made)
    elif made.totals is None:
        print("no usage was found")
    else:
        _print_table(made, made.totals)


def _print_json(made: UsageReport) -> None:
    """Print one object, a row at a time; only a report for a screen is held whole."""
    if sys.stdout.isatty():
        print_json(made.to_json())
        return
    print('{"rows":[', end="")
    for number, line in enumerate(made.iterate_lines()):
        print("," * (number > 0) + format_json(line.to_json()), end="")
    print(f'],"totals":{format_json(made.describe_totals())}}}', flush=True)


def _print_csv(made: UsageReport) -> None:
    from router.lake.report.lines import REPORT_FIGURES

    writer = csv.DictWriter(
        sys.stdout, [*made.by, *REPORT_FIGURES, "currency"], lineterminator="\n"
    )
    writer.writeheader()
    for line in made.iterate_lines():
        writer.writerow(
            {
                **line.to_json(),
                **{name: escape_cell(line.group[name]) for name in made.by},
                "currency": made.currency,
            }
        )


def _print_table(made: UsageReport, totals: ReportLine) -> None:
    """Print values that all lines share once, above the table: a report of one day has no column of
    that day.
    """
    shared = _find_shared(made)
    names = [name for name in made.by if name not in shared]
    extra = _choose_rare_figures(totals)
    view = make_usage_view(names, made.currency, extra)
    lines = made.iterate_lines(MAX_SCREEN_ROWS)
    shown = build_table(view.titles, map(view.list_cells, lines))
    shown.padding = (0, 1, 0, 0)
    for column in shown.columns[len(names) :]:
        column.justify = "right"
        column.no_wrap = True
    shown.add_section()
    shown.add_row(
        *["all", *[""] * (len(names) - 1)][: len(names)],
        *map(build_cell, make_usage_view((), made.currency, extra).list_cells(totals)),
        style="bold",
    )
    if shared:
        print(
            ", ".join(
                f"{format_heading(name)} {build_cell(value)}" for name, value in shared.items()
            )
        )
    open_console().print(shown)
    for name in extra:
        if name in EXPLAINED_FIGURES:
            print(f"{RARE_FIGURES[name]}: {EXPLAINED_FIGURES[name]}")
    if len(made.rows) > MAX_SCREEN_ROWS:
        print(f"{len(made.rows) - MAX_SCREEN_ROWS} more lines: --by fewer names, filter, or --csv")


def _find_shared(made: UsageReport) -> dict[str, str]:
    """Return the names with one value in all lines, if there are several lines."""
    first = made.rows.slice(0, 1).to_pylist()[0]
    return {
        name: first[name]
        for name in made.by
        if len(made.rows) > 1 and len(made.rows[name].unique()) == 1
    }


def _choose_rare_figures(totals: ReportLine) -> list[str]:
    """Return the figures that few reports have: those that are not 0 in all."""
    figures = totals.all_figures
    is_there = {name: bool(figures[name]) for name in RARE_FIGURES} | {
        f"{kind}_cost": bool(figures[f"{kind}_count"])
        for kind in ("adjustment", "uncorrelated", "correction")
    }
    return [name for name in RARE_FIGURES if is_there[name]]


# -- `router usage export`.


class Form(StrEnum):
    """What the file has."""

    FOCUS = "focus"
    PARQUET = "parquet"
    CSV = "csv"


PeriodText = Annotated[
    str,
    typer.Option(
        "--period", metavar="PERIOD", help="2026-10, 2026-10-05 or 2026-10-01..2026-10-15; UTC."
    ),
]
Output = Annotated[
    Path,
    typer.Option(
        "--output", metavar="FILE", help="Replaced when the whole of it is written.", dir_okay=False
    ),
]
FormOption = Annotated[
    Form,
    typer.Option(
        "--format",
        help="focus: the columns of FOCUS 1.2, CSV, or Parquet if FILE ends in .parquet.",
    ),
]


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
    """Export the sums of each day, tenant, provider, type, status and model, as of one cut. Costs
    are in `usage.currency`.

    An event of a sealed day is in the export of the day on which it came, and says which day it
    corrects. Adjustments are rows of their own. What results of unknown assignments told is in no
    cost.

    Exit status: 0 there is usage, 1 there is none, and the file has no rows.

    Example:  router usage export --period 2026-10 --format focus --output usage-2026-10.csv
    """
    at = open_warehouse(warehouse)
    from router.lake.report.export import export as write_period
    from router.lake.report.export import parse_period

    currency = session.settings.usage.currency
    done = write_period(
        at, parse_period(period), form.value, output, currency=currency, as_of_cut=as_of_cut
    )
    fields = {
        "rows": done.rows,
        "days": done.days,
        "cut": done.cut,
        "currency": currency,
        "file": str(output),
    }
    session.emit_one(
        fields,
        f"{done.rows} rows of {done.days} days as of cut {done.cut}, in {currency}: {output}",
    )
    return exit_codes.OK if done.rows else exit_codes.NO
