"""Print a report: a table for a screen, CSV, JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from router.shell.output import build_cell, build_table, format_json, open_console, print_json

if TYPE_CHECKING:
    from router.lake.report import ReportLine, UsageReport

MAX_SCREEN_ROWS = 200  # on a screen
EXTRA = {  # figure: its heading
    "adjustment_cost": "of it adjusted",
    "estimated_cost": "of it estimated",
    "correction_cost": "of sealed days",
    "uncorrelated_cost": "not billed",
    "input_tokens": "tokens in",
    "output_tokens": "tokens out",
}
EXPLAINED = {
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
    import csv

    from router.core.legible import escape_cell
    from router.lake.report.lines import REPORT_FIGURES

    writer = csv.DictWriter(sys.stdout, [*made.by, *REPORT_FIGURES, "currency"], lineterminator="\n")
    writer.writeheader()
    for line in made.iterate_lines():
        writer.writerow({**line.to_json(), **{name: escape_cell(line.group[name]) for name in made.by}, "currency": made.currency})


def _print_table(made: UsageReport, totals: ReportLine) -> None:
    """Print values that all lines share once, above the table: a report of one day has no column of that day."""
    shared = _find_shared(made)
    names = [name for name in made.by if name not in shared]
    extra = _choose_extra(totals)
    rows = [[*(line.group[name] for name in names), *_format_figures(line, extra)] for line in made.iterate_lines(MAX_SCREEN_ROWS)]
    cost = "cost" if made.currency is None else f"cost {made.currency}"
    headings = [*map(_format_heading, names), "events", cost, *map(EXTRA.__getitem__, extra), "failed", "p50 ms", "p95 ms", "p99 ms"]
    shown = build_table(headings, rows)
    shown.padding = (0, 1, 0, 0)
    for column in shown.columns[len(names) :]:
        column.justify = "right"
        column.no_wrap = True
    shown.add_section()
    shown.add_row(*["all", *[""] * (len(names) - 1)][: len(names)], *_format_figures(totals, extra), style="bold")
    if shared:
        print(", ".join(f"{_format_heading(name)} {build_cell(value)}" for name, value in shared.items()))
    open_console().print(shown)
    for name in extra:
        if name in EXPLAINED:
            print(f"{EXTRA[name]}: {EXPLAINED[name]}")
    if len(made.rows) > MAX_SCREEN_ROWS:
        print(f"{len(made.rows) - MAX_SCREEN_ROWS} more lines: --by fewer names, filter, or --csv")


def _find_shared(made: UsageReport) -> dict[str, str]:
    """Return the names with one value in all lines, if there are several lines."""
    first = made.rows.slice(0, 1).to_pylist()[0]
    return {name: first[name] for name in made.by if len(made.rows) > 1 and len(made.rows[name].unique()) == 1}


def _format_heading(name: str) -> str:
    return name.removesuffix("_id").replace("event_type", "type")


def _choose_extra(totals: ReportLine) -> list[str]:
    """Return the figures that few reports have: those that are not 0 in all."""
    figures = {**totals.figures, **totals.corrections}
    is_there = {name: bool(figures[name]) for name in EXTRA} | {
        f"{kind}_cost": bool(figures[f"{kind}_count"]) for kind in ("adjustment", "uncorrelated", "correction")
    }
    return [name for name in EXTRA if is_there[name]]


def _format_figures(line: ReportLine, extra: Sequence[str]) -> list[str]:
    figures = {**line.figures, **line.corrections}
    shown = (f"{figures[name]:,.9f}" if name.endswith("_cost") else f"{figures[name]:,}" for name in extra)
    percentiles = ("" if value is None else f"{value:,.0f}" for value in line.percentiles.values())
    return [f"{line.count:,}", f"{line.cost:,.9f}", *shown, f"{line.error_rate:.2%}", *percentiles]
