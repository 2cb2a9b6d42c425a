"""Reads /metrics of each router, as Prometheus does: what the page Now shows. Only the lines of
those metrics are parsed.

Counters are kept by router: one that cannot be read for a while neither takes its counts off the
others' nor adds them again later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from http.client import HTTPException
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

from router.core.masking import hide_login, shorten

WITHIN_S = 2.0
MAX_PAGE_BYTES = 16 * 1024 * 1024
MAX_CAUSE = 200  # characters
DECISIONS, RESULTS = "router_decisions_total", "router_results_total"
LATENCY = "router_decision_seconds_bucket"
GAUGES = (
    "router_delivery_in_flight",
    "router_consumer_paused",
    "router_storage_waiting",
    "router_bucket_waiting",
    "router_overloaded",
    "router_workers_alive",
    "router_workers_silent",
)
NAMES = (DECISIONS, RESULTS, LATENCY, *GAUGES)

DecisionKey = tuple[str, str, str]  # tenant, provider, outcome


class RouterState(Struct, frozen=True):
    """One address. `cause`: why it could not be read; empty: it was."""

    url: str
    cause: str = ""


class MetricTotals(Struct):
    """What the routers count, by a router's address. `buckets`: by upper bound, seconds; `gauges`,
    added up: by metric and consumer.
    """

    decisions: Counter[tuple[str, DecisionKey]]
    results: Counter[tuple[str, tuple[str, str]]]  # provider, status
    buckets: Counter[tuple[str, float]]
    gauges: Counter[tuple[str, str]]
    routers: tuple[RouterState, ...] = ()


def scrape_all(urls: Sequence[str]) -> MetricTotals:
    """Read every address, one after the other; it blocks, at most two seconds for each. It never
    raises.
    """
    totals = MetricTotals(Counter(), Counter(), Counter(), Counter())
    totals.routers = tuple(_scrape(url, totals) for url in urls)
    return totals


def add_text(text: str, totals: MetricTotals, url: str) -> None:
    """Add one router's page. Raises ValueError for what is no page of metrics."""
    lines = "\n".join(line for line in text.splitlines() if line.startswith(NAMES))
    for family in text_string_to_metric_families(lines + "\n"):
        for sample in family.samples:
            _add_sample(sample.name, sample.labels, sample.value, totals, url)


def _scrape(url: str, totals: MetricTotals) -> RouterState:
    shown = hide_login(url)
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):
            return RouterState(
                shown, "is no http or https address: correct the setting console.metrics"
            )
        address = url if parts.path not in ("", "/") else f"{url.rstrip('/')}/metrics"
        with urlopen(Request(address), timeout=WITHIN_S) as answer:  # noqa: S310 - the scheme was looked at
            add_text(answer.read(MAX_PAGE_BYTES).decode("utf-8", "replace"), totals, shown)
    except (OSError, ValueError, HTTPException) as exc:
        # the last one: what answers there speaks no HTTP, or its port is no number
        cause = exc.reason if isinstance(exc, URLError) else exc
        return RouterState(shown, shorten(str(cause), MAX_CAUSE))
    return RouterState(shown)


def _add_sample(
    name: str, labels: dict[str, str], value: float, totals: MetricTotals, url: str
) -> None:
    match name:
        case "router_decisions_total":
            totals.decisions[
                url,
                (labels.get("tenant", ""), labels.get("provider", ""), labels.get("outcome", "")),
            ] += int(value)
        case "router_results_total":
            totals.results[url, (labels.get("provider", ""), labels.get("status", ""))] += int(
                value
            )
        case "router_decision_seconds_bucket":
            totals.buckets[url, float(labels.get("le", "inf"))] += int(value)
        case _ if name in GAUGES:
            totals.gauges[name, labels.get("consumer", "")] += int(value)
