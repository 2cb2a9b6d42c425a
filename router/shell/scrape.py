"""Reads /metrics of each router, as Prometheus does, and computes what the page Now shows: rates,
percentiles and error shares between two samples.

Counters are kept by router: one that cannot be read for a while neither takes its counts off the
others' nor adds them again later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from math import inf
from typing import TypeVar
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


# -- Rates, percentiles and error shares between two samples of the counters. Pure.
#
# A counter that fell began again at 0, because its router was started again: what it shows now is
# what it counted since.


K = TypeVar("K")
OK = "ok"
MAX_LINES = 1_000  # tenants and providers, those with the most errors first


class ConsumerBacklog(Struct, frozen=True):
    """One durable, as the broker sees it. `pending`: not delivered yet; `unacked`: delivered, and
    not acknowledged.
    """

    stream: str
    durable: str
    pending: int
    unacked: int
    redelivered: int


class Sample(Struct, frozen=True):
    """All figures at a moment. `at`: seconds since the epoch; `backlog` None: the broker is
    unavailable, `cause` says why.
    """

    at: float
    totals: MetricTotals
    backlog: tuple[ConsumerBacklog, ...] | None = None
    dead_letters: int | None = None
    cause: str = ""


class AnswerLine(Struct, frozen=True):
    """The answers of one tenant and provider in the window; without a provider those that were
    refused.
    """

    tenant: str
    provider: str
    rate: float  # a second
    errors: float  # share, 0 to 1
    worst: str  # the most frequent error


class Figures(Struct, frozen=True):
    """What happened between two samples. `rate`: decisions a second, None: no router was read;
    latencies in ms, None: no decision.
    """

    seconds: float
    rate: float | None
    errors: float | None
    p50: float | None
    p99: float | None
    tenants: Sequence[AnswerLine] = ()
    providers: Sequence[AnswerLine] = ()  # what workers reported


def compute_figures(before: Sample, after: Sample) -> Figures:
    """The figures of the time between them, of the routers that were read both times."""
    seconds = max(after.at - before.at, 1e-3)
    routers = _list_read(before) & _list_read(after)
    decisions = _grow(before.totals.decisions, after.totals.decisions, routers)
    results = _grow(before.totals.results, after.totals.results, routers)
    buckets = _grow(before.totals.buckets, after.totals.buckets, routers)
    count = decisions.total()
    good = sum(number for (_, _, outcome), number in decisions.items() if outcome == OK)
    return Figures(
        seconds=seconds,
        rate=count / seconds if routers else None,
        errors=1 - good / count if count else None,
        p50=_find_quantile(buckets, 0.50),
        p99=_find_quantile(buckets, 0.99),
        tenants=_list_lines(
            {
                (tenant, provider, outcome): n
                for (tenant, provider, outcome), n in decisions.items()
            },
            OK,
            seconds,
        ),
        providers=_list_lines(
            {("", provider, status): n for (provider, status), n in results.items()},
            "success",
            seconds,
        ),
    )


def _list_read(sample: Sample) -> set[str]:
    return {router.url for router in sample.totals.routers if not router.cause}


def _grow(
    before: Counter[tuple[str, K]], after: Counter[tuple[str, K]], routers: set[str]
) -> Counter[K]:
    grown: Counter[K] = Counter()
    for (url, key), now in after.items():
        if url in routers:
            was = before[url, key]
            grown[key] += now - was if now >= was else now
    return grown


def _find_quantile(buckets: Mapping[float, int], share: float) -> float | None:
    """Milliseconds, as Prometheus' histogram_quantile: within a bucket the values are taken to be
    spread evenly.
    """
    bounds = sorted(buckets)
    total = buckets[bounds[-1]] if bounds else 0
    if not total:
        return None
    rank, lower, below = share * total, 0.0, 0
    for bound in bounds:
        if buckets[bound] >= rank:
            if bound == inf:
                return lower * 1000
            within = buckets[bound] - below
            return (lower + (bound - lower) * ((rank - below) / within if within else 0.0)) * 1000
        lower, below = bound, buckets[bound]
    return lower * 1000


def _list_lines(
    counts: Mapping[tuple[str, str, str], int], good: str, seconds: float
) -> list[AnswerLine]:
    groups: dict[tuple[str, str], Counter[str]] = {}
    for (tenant, provider, outcome), number in counts.items():
        if number:
            groups.setdefault((tenant, provider), Counter())[outcome] += number
    lines = [
        _build_line(tenant, provider, outcomes, good, seconds)
        for (tenant, provider), outcomes in groups.items()
    ]
    return sorted(lines, key=lambda line: (-line.errors * line.rate, -line.rate))[:MAX_LINES]


def _build_line(
    tenant: str, provider: str, outcomes: Counter[str], good: str, seconds: float
) -> AnswerLine:
    total = outcomes.total()
    bad = Counter({name: number for name, number in outcomes.items() if name != good})
    worst = bad.most_common(1)[0][0] if bad else ""
    return AnswerLine(tenant, provider, total / seconds, bad.total() / total, worst)
