"""How the lines of a usage report are shown: in a terminal, in the console.

Its JSON and its CSV have all figures, by the names of `report.lines`.
"""

from __future__ import annotations

from collections.abc import Iterable

from router.shell.view import View, ViewColumn

LABELS = {
    "day": "Day",
    "tenant_id": "Tenant",
    "provider_id": "Provider",
    "event_type": "Type",
    "status": "Status",
    "model": "Model",
}
# Figures that few reports have, and only a terminal shows: name and heading.
RARE_FIGURES = {
    "adjustment_cost": "of it adjusted",
    "estimated_cost": "of it estimated",
    "correction_cost": "of sealed days",
    "uncorrelated_cost": "not billed",
    "input_tokens": "tokens in",
    "output_tokens": "tokens out",
}
COUNT, COST, MS = "{:,}".format, "{:,.9f}".format, "{:,.0f}".format


def make_usage_view(
    names: Iterable[str], currency: str | None = None, rare: Iterable[str] = ()
) -> View:
    """Return the view of a `ReportLine`: the columns that it is grouped by, and its figures."""
    cost = "cost" if currency is None else f"cost {currency}"
    return View(
        *map(_make_dimension, names),
        ViewColumn("count", "events", "Events", tell=COUNT, kind="number"),
        ViewColumn("cost", cost, "Cost", "cost", COST, float, "number"),
        *map(_make_rare_figure, rare),
        ViewColumn("failed", label="Failed", of="error_rate", tell="{:.2%}".format, kind="percent"),
        *map(_make_percentile, ("p50", "p95", "p99")),
    )


def _make_dimension(name: str) -> ViewColumn:
    return ViewColumn(name, format_heading(name), LABELS[name], of=f"group.{name}")


def format_heading(name: str) -> str:
    return name.removesuffix("_id").replace("event_type", "type")


def _make_rare_figure(name: str) -> ViewColumn:
    tell = COST if name.endswith("_cost") else COUNT
    return ViewColumn(name, RARE_FIGURES[name], of=f"all_figures.{name}", tell=tell)


def _make_percentile(name: str) -> ViewColumn:
    place, title = f"percentiles.latency_{name}_ms", f"{name} ms"
    return ViewColumn(name, title, title, place, MS, kind="number")
