"""Render one self-contained page: figures, charts, tables. No script, nothing fetched, light or
dark as the reader's browser is.

Every text that an event brought is shortened and escaped, and invisible characters are shown. The
page does not say when it was made, so the same tables give the same bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from itertools import islice
from typing import NamedTuple

from router.core.legible import shorten
from router.lake.report.charts import (
    draw_horizontal_bars,
    draw_spans,
    draw_stacked_bars,
    format_ms,
    format_number,
)
from router.lake.report.lines import Figure, ReportLine, UsageReport
from router.lake.report.partials import ReportPart
from router.lake.report.read import make_report

# the columns by which the parts must be read
PAGE_COLUMNS = ("day", "tenant_id", "provider_id", "event_type", "model")
MAX_COLOURED_TENANTS = 6  # tenants with a colour of their own
LISTED = 50  # tenants in the table
BARS = 12  # of a horizontal chart: those with the most events
OTHER_TENANTS = "all others"
NONE_TOLD = "none told"  # of models
ABOUT = 500  # characters of the description of the query


class PageViews(NamedTuple):
    """The same events, grouped in each way that the page shows."""

    days: UsageReport
    tenants: UsageReport
    providers: UsageReport
    types: UsageReport
    models: UsageReport


def render_page(parts: Sequence[ReportPart], about: str) -> str:
    """Return the HTML; `about` describes the query below the heading."""
    views = PageViews(
        *(
            make_report(parts, by)
            for by in (
                ("day", "tenant_id"),
                ("tenant_id",),
                ("provider_id",),
                ("event_type",),
                ("model",),
            )
        )
    )
    css = files("router.lake.report").joinpath("page.css").read_text()
    head = (
        '<meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width"><title>Usage</title><style>{css}</style>'
    )
    top = (
        "<h1>Usage</h1><p "
        f'class="about">{escape(shorten(about[:1].upper() + about[1:], ABOUT))}</p>'
    )
    body = (
        "".join(_render_cards(views))
        if views.days.totals is not None
        else _render_card("No events", "", "<p>Nothing was found.</p>")
    )
    return (
        "<!doctype html><html "
        f'lang="en"><head>{head}</head><body><main>{top}{body}</main></body></html>\n'
    )


def _render_cards(views: PageViews) -> Iterator[str]:
    totals = views.days.totals
    assert totals is not None  # noqa: S101 - page_of checks it
    yield _render_figures(totals)
    days, series = _sum_cost_by_day(views)
    yield _render_card(
        "Cost by day", "UTC", draw_stacked_bars(days, series) + _render_legend(series)
    )
    yield _render_card(
        "Latency by provider",
        "p50, p95, p99",
        draw_spans(_list_spans(views.providers)) + _render_dots(),
    )
    yield f'<div class="pair">{_render_errors(views.providers)}{_render_events(views.types)}</div>'
    if any(line.group["model"] for line in views.models.iterate_lines()):
        yield _render_models(views.models)
    yield _render_card(
        "Tenants",
        _describe_table(views.tenants),
        f'<div class="wide">{_render_table(views.tenants, totals)}</div>',
    )


def _render_figures(totals: ReportLine) -> str:
    p50, p95, p99 = (format_ms(value) for value in totals.percentiles.values())
    figures = (
        ("Events", f"{totals.count:,}", ""),
        ("Cost", f"{totals.cost:,.2f}", f"exactly {totals.cost:,.9f}"),
        ("Failed", f"{totals.error_rate:.2%}", f"{totals.failed:,} errors and timeouts"),
        ("Latency p95", p95, f"p50 {p50}, p99 {p99}"),
        *_list_extra_figures(totals.figures),
    )
    return f'<div class="figures">{"".join(_render_figure(*figure) for figure in figures)}</div>'


def _list_extra_figures(figures: Mapping[str, Figure]) -> Iterator[tuple[str, str, str]]:
    """Yield what few periods have: adjustments, cost that is not billed, tokens."""
    adjusted, apart, estimated = (
        figures[f"{kind}_cost"] or 0 for kind in ("adjustment", "uncorrelated", "estimated")
    )
    tokens = [figures[f"{kind}_tokens"] or 0 for kind in ("input", "cached", "output")]
    if figures["adjustment_count"]:
        yield (
            "Adjusted",
            f"{adjusted:,.2f}",
            f"{figures['adjustment_count']:,} adjustments, exactly {adjusted:,.9f}, in the cost",
        )
    if estimated:
        yield "Estimated", f"{estimated:,.2f}", f"exactly {estimated:,.9f}, in the cost"
    if figures["uncorrelated_count"]:
        yield (
            "Not billed",
            f"{apart:,.2f}",
            f"{figures['uncorrelated_count']:,} results of unknown assignments, in no cost",
        )
    if any(tokens):
        yield (
            "Tokens",
            f"{tokens[0] + tokens[2]:,}",
            f"{tokens[0]:,} in ({tokens[1]:,} of them cached), {tokens[2]:,} out",
        )


def _render_figure(name: str, value: str, more: str) -> str:
    return (
        f'<div class="card"><div class="name">{name}</div><div class="value">{value}</div><div '
        f'class="more">{more}</div></div>'
    )


def _sum_cost_by_day(views: PageViews) -> tuple[list[str], Mapping[str, list[float]]]:
    """Return the days in order, and each day's cost of the most expensive tenants, all others
    together.
    """
    dearest = [line.group["tenant_id"] for line in _sort_by_cost(views.tenants)]
    shown = (
        dearest
        if len(dearest) <= MAX_COLOURED_TENANTS + 1
        else [*dearest[:MAX_COLOURED_TENANTS], OTHER_TENANTS]
    )
    costs: defaultdict[tuple[str, str], float] = defaultdict(float)
    for line in views.days.lines:
        name = line.group["tenant_id"]
        costs[line.group["day"], name if name in shown else OTHER_TENANTS] += float(line.cost)
    days = sorted({line.group["day"] for line in views.days.lines})
    return days, {name: [costs[day, name] for day in days] for name in shown}


def _list_spans(providers: UsageReport) -> list[tuple[str, list[float]]]:
    spans = (
        (line.group["provider_id"], line.percentiles.values())
        for line in _sort_by_count(providers)
        if line.count
    )
    return [
        (name, [value for value in values if value is not None])
        for name, values in islice(spans, BARS)
    ]


def _render_errors(providers: UsageReport) -> str:
    rows = [
        (line.group["provider_id"], line.error_rate, f"{line.error_rate:.2%}")
        for line in _sort_by_count(providers)[:BARS]
    ]
    return _render_card(
        "Failed",
        "share of errors and timeouts",
        draw_horizontal_bars(rows, "error rate by provider", "bad"),
    )


def _render_events(types: UsageReport) -> str:
    rows = [
        (line.group["event_type"], float(line.count), format_number(line.count))
        for line in _sort_by_count(types)[:BARS]
    ]
    return _render_card("Events", "by type", draw_horizontal_bars(rows, "events by type", "c0"))


def _render_models(models: UsageReport) -> str:
    dearest = _sort_by_cost(models)[:BARS]
    rows = [
        (line.group["model"] or NONE_TOLD, float(line.cost), format_number(float(line.cost)))
        for line in dearest
    ]
    return _render_card("Models", "cost", draw_horizontal_bars(rows, "cost by model", "c0"))


def _render_table(tenants: UsageReport, totals: ReportLine) -> str:
    names = "".join(
        f"<th>{name}</th>" for name in ("tenant", "events", "cost", "failed", "p50", "p95", "p99")
    )
    rows = "".join(
        f"<tr>{_render_cells(line.group['tenant_id'], line)}</tr>"
        for line in _sort_by_cost(tenants)[:LISTED]
    )
    return f"<table><thead><tr>{names}</tr></thead><tbody>{rows}</tbody><tfoot><tr>{_render_cells('all', totals)}</tr></tfoot></table>"


def _render_cells(name: str, line: ReportLine) -> str:
    cells = (
        escape(shorten(name)),
        f"{line.count:,}",
        f"{line.cost:,.9f}",
        f"{line.error_rate:.2%}",
        *map(format_ms, line.percentiles.values()),
    )
    return "".join(f"<td>{text}</td>" for text in cells)


def _describe_table(tenants: UsageReport) -> str:
    return (
        f"the {LISTED} dearest of {len(tenants.lines)}"
        if len(tenants.lines) > LISTED
        else "by cost"
    )


def _render_card(name: str, more: str, inside: str) -> str:
    return f'<section class="card"><h2>{name}<small>{more}</small></h2>{inside}</section>'


def _render_legend(names: Iterable[str], colours: Sequence[int] = range(7)) -> str:
    items = (
        f'<li><i style="background:var(--c{colour})"></i>{escape(shorten(name))}</li>'
        for name, colour in zip(names, colours, strict=False)
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


def _render_dots() -> str:
    return _render_legend(("p50", "p95", "p99"), colours=(1, 2, 5))


def _sort_by_cost(report: UsageReport) -> list[ReportLine]:
    return sorted(
        report.lines, key=lambda line: (line.cost.copy_negate(), tuple(line.group.values()))
    )


def _sort_by_count(report: UsageReport) -> list[ReportLine]:
    return sorted(report.lines, key=lambda line: (-line.count, tuple(line.group.values())))
