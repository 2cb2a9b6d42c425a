"""What a dashboard is made of, as values: boards of rows of panels, each with its queries."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["lines", "stacked", "number", "states"]


class Query(NamedTuple):
    """PromQL, and what its series are called: `{{label}}` is replaced."""

    expr: str
    legend: str


class Panel(NamedTuple):
    """One picture. `says` is its description: what it shows, and when to worry. `good`: a number's
    colours, from this value on.
    """

    title: str
    says: str
    unit: str  # Grafana's name: reqps, s, percentunit, short, bytes
    queries: tuple[Query, ...]
    kind: Kind = "lines"
    # from which value on which colour; None: from the start
    steps: tuple[tuple[float | None, str], ...] = ((None, "green"),)


class Row(NamedTuple):
    title: str
    panels: tuple[Panel, ...]


class Board(NamedTuple):
    uid: str
    title: str
    says: str
    rows: tuple[Row, ...]


BAD_FROM_ONE = ((None, "green"), (1.0, "red"))
GOOD_FROM_ONE = ((None, "red"), (1.0, "green"))
WARN_FROM_ONE = ((None, "green"), (1.0, "orange"))


def panel(
    title: str,
    says: str,
    unit: str,
    *queries: tuple[str, str],
    kind: Kind = "lines",
    steps: object = None,
) -> Panel:
    made = tuple(Query(expr, legend) for expr, legend in queries)
    return Panel(title, says, unit, made, kind, steps or ((None, "green"),))  # type: ignore[arg-type]


def rate(metric: str, by: str = "", match: str = "") -> str:
    """A counter's events a second, of the instances that are looked at."""
    labels = f'instance=~"$instance"{"," if match else ""}{match}'
    return f"sum{f' by ({by})' if by else ''} (rate({metric}{{{labels}}}[$__rate_interval]))"


def quantile(q: float, metric: str, by: str = "") -> str:
    """A histogram's quantile over the same."""
    return f"histogram_quantile({q}, {rate(f'{metric}_bucket', f'{by}, le' if by else 'le')})"


def or_zero(expr: str) -> str:
    """0 where there is no series: nothing of it has happened yet."""
    return f"sum({expr}) or vector(0)"


def now(metric: str, how: str = "sum", by: str = "", match: str = "") -> str:
    """A gauge, put together."""
    labels = f'instance=~"$instance"{"," if match else ""}{match}'
    return f"{how}{f' by ({by})' if by else ''} ({metric}{{{labels}}})"
