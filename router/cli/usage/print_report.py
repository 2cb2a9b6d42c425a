"""Print a report: a table for a screen, CSV, JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from router.cli.output import build_cell, build_table, open_console, print_json

if TYPE_CHECKING:
    from router.lake.report import ReportLine, UsageReport

MAX_SCREEN_ROWS = 200  # on a screen


def print_report(made: UsageReport, *, as_json: bool, as_csv: bool) -> None:
    if as_json:
        print_json(made.to_json())
    elif as_csv:
        _print_csv(made)
    elif made.totals is None:
        print("no usage was found")
    else:
        _print_table(made, made.totals)


def _print_csv(made: UsageReport) -> None:
    import csv
    import sys

    from router.core.legible import escape_cell
    from router.lake.report.lines import REPORT_FIGURES

    writer = csv.DictWriter(sys.stdout, [*made.by, *REPORT_FIGURES], lineterminator="\n")
    writer.writeheader()
    writer.writerows({**line.to_json(), **{name: escape_cell(line.group[name]) for name in made.by}} for line in made.lines)


def _print_table(made: UsageReport, totals: ReportLine) -> None:
    """Print values that all lines share once, above the table: a report of one day has no column of that day."""
    shared = _find_shared(made)
    names = [name for name in made.by if name not in shared]
    rows = [[*(line.group[name] for name in names), *_format_figures(line)] for line in made.lines[:MAX_SCREEN_ROWS]]
    shown = build_table([*map(_format_heading, names), "events", "cost", "failed", "p50 ms", "p95 ms", "p99 ms"], rows)
    shown.padding = (0, 1, 0, 0)
    for column in shown.columns[len(names) :]:
        column.justify = "right"
        column.no_wrap = True
    shown.add_section()
    shown.add_row(*["all", *[""] * (len(names) - 1)][: len(names)], *_format_figures(totals), style="bold")
    if shared:
        print(", ".join(f"{_format_heading(name)} {build_cell(value)}" for name, value in shared.items()))
    open_console().print(shown)
    if len(made.lines) > MAX_SCREEN_ROWS:
        print(f"{len(made.lines) - MAX_SCREEN_ROWS} more lines: --by fewer names, filter, or --csv")


def _find_shared(made: UsageReport) -> dict[str, str]:
    """Return the names with one value in all lines, if there are several lines."""
    first, *others = made.lines
    return {name: value for name, value in first.group.items() if others and all(line.group[name] == value for line in others)}


def _format_heading(name: str) -> str:
    return name.removesuffix("_id").replace("event_type", "type")


def _format_figures(line: ReportLine) -> list[str]:
    return [f"{line.count:,}", f"{line.cost:,.9f}", f"{line.error_rate:.2%}", *(f"{value:,.0f}" for value in line.percentiles.values())]
