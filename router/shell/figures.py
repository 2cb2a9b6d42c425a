"""Rates, percentiles and error shares between two samples of the counters. Pure.

A counter that fell began again at 0, because its router was started again: what it shows now is
what it counted since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf
from typing import TypeVar

from msgspec import Struct

from router.shell.scrape import MetricTotals

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
