"""Render one self-contained page: figures, charts, tables. No script, nothing fetched, light or dark as the reader's browser is.

Every text that an event brought is shortened and escaped, and invisible characters are shown. The page does not say when it was
made, so the same tables give the same bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import NamedTuple

from router.lake.report.charts import figure, lying_bars, millis, spans, stacked_bars
from router.lake.report.lines import Line, Report
from router.lake.report.names import cut
from router.lake.report.partials import Part
from router.lake.report.read import report_of

BY = ("day", "tenant_id", "provider_id", "event_type")  # the columns by which the parts must be read
SHOWN = 6  # tenants with a colour of their own
LISTED = 50  # tenants in the table
BARS = 12  # of a horizontal chart: those with the most events
OTHERS = "all others"
ABOUT = 500  # characters of the description of the query


class Views(NamedTuple):
    """The same events, grouped in each way that the page shows."""

    days: Report
    tenants: Report
    providers: Report
    types: Report


def page_of(parts: Sequence[Part], about: str) -> str:
    """Return the HTML; `about` describes the query below the heading."""
    views = Views(*(report_of(parts, by) for by in (("day", "tenant_id"), ("tenant_id",), ("provider_id",), ("event_type",))))
    css = files("router.lake.report").joinpath("page.css").read_text()
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Usage</title><style>{css}</style>'
    top = f'<h1>Usage</h1><p class="about">{escape(cut(about[:1].upper() + about[1:], ABOUT))}</p>'
    body = "".join(_cards(views)) if views.days.totals is not None else _card("No events", "", "<p>Nothing was found.</p>")
    return f'<!doctype html><html lang="en"><head>{head}</head><body><main>{top}{body}</main></body></html>\n'


def _cards(views: Views) -> Iterator[str]:
    totals = views.days.totals
    assert totals is not None  # noqa: S101 - page_of checks it
    yield _figures(totals)
    days, series = _cost_by_day(views)
    yield _card("Cost by day", "UTC", stacked_bars(days, series, "cost by day and tenant") + _legend(series))
    yield _card("Latency by provider", "p50, p95, p99", spans(_spans(views.providers), "latency by provider") + _dots())
    yield f'<div class="pair">{_errors(views.providers)}{_events(views.types)}</div>'
    yield _card("Tenants", _listed(views.tenants), f'<div class="wide">{_table(views.tenants, totals)}</div>')


def _figures(totals: Line) -> str:
    p50, p95, p99 = (millis(value) for value in totals.percentiles.values())
    figures = (
        ("Events", f"{totals.count:,}", ""),
        ("Cost", f"{totals.cost:,.2f}", f"exactly {totals.cost:,.9f}"),
        ("Failed", f"{totals.error_rate:.2%}", f"{totals.failed:,} errors and timeouts"),
        ("Latency p95", p95, f"p50 {p50}, p99 {p99}"),
    )
    return f'<div class="figures">{"".join(_figure(*one) for one in figures)}</div>'


def _figure(name: str, value: str, more: str) -> str:
    return f'<div class="card"><div class="name">{name}</div><div class="value">{value}</div><div class="more">{more}</div></div>'


def _cost_by_day(views: Views) -> tuple[list[str], Mapping[str, list[float]]]:
    """Return the days in order, and each day's cost of the most expensive tenants, all others together."""
    dearest = [line.group["tenant_id"] for line in _by_cost(views.tenants)]
    shown = dearest if len(dearest) <= SHOWN + 1 else [*dearest[:SHOWN], OTHERS]
    costs: defaultdict[tuple[str, str], float] = defaultdict(float)
    for line in views.days.lines:
        name = line.group["tenant_id"]
        costs[line.group["day"], name if name in shown else OTHERS] += float(line.cost)
    days = sorted({line.group["day"] for line in views.days.lines})
    return days, {name: [costs[day, name] for day in days] for name in shown}


def _spans(providers: Report) -> list[tuple[str, list[float]]]:
    return [(line.group["provider_id"], list(line.percentiles.values())) for line in _by_count(providers)[:BARS]]


def _errors(providers: Report) -> str:
    rows = [(line.group["provider_id"], line.error_rate, f"{line.error_rate:.2%}") for line in _by_count(providers)[:BARS]]
    return _card("Failed", "share of errors and timeouts", lying_bars(rows, "error rate by provider", "bad"))


def _events(types: Report) -> str:
    rows = [(line.group["event_type"], float(line.count), figure(line.count)) for line in _by_count(types)[:BARS]]
    return _card("Events", "by type", lying_bars(rows, "events by type", "c0"))


def _table(tenants: Report, totals: Line) -> str:
    names = "".join(f"<th>{name}</th>" for name in ("tenant", "events", "cost", "failed", "p50", "p95", "p99"))
    rows = "".join(f"<tr>{_cells(line.group['tenant_id'], line)}</tr>" for line in _by_cost(tenants)[:LISTED])
    return f"<table><thead><tr>{names}</tr></thead><tbody>{rows}</tbody><tfoot><tr>{_cells('all', totals)}</tr></tfoot></table>"


def _cells(name: str, line: Line) -> str:
    cells = (escape(cut(name)), f"{line.count:,}", f"{line.cost:,.9f}", f"{line.error_rate:.2%}", *map(millis, line.percentiles.values()))
    return "".join(f"<td>{text}</td>" for text in cells)


def _listed(tenants: Report) -> str:
    return f"the {LISTED} dearest of {len(tenants.lines)}" if len(tenants.lines) > LISTED else "by cost"


def _card(name: str, more: str, inside: str) -> str:
    return f'<section class="card"><h2>{name}<small>{more}</small></h2>{inside}</section>'


def _legend(names: Iterable[str], colours: Sequence[int] = range(7)) -> str:
    items = (
        f'<li><i style="background:var(--c{colour})"></i>{escape(cut(name))}</li>' for name, colour in zip(names, colours, strict=False)
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


def _dots() -> str:
    return _legend(("p50", "p95", "p99"), colours=(1, 2, 5))


def _by_cost(report: Report) -> list[Line]:
    return sorted(report.lines, key=lambda line: (line.cost.copy_negate(), tuple(line.group.values())))


def _by_count(report: Report) -> list[Line]:
    return sorted(report.lines, key=lambda line: (-line.count, tuple(line.group.values())))
