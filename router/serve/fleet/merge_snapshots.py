"""Merges the metrics of several processes into one page. Pure.

exemplar              the newest one of a series
counter, histogram    the sum over running and ended processes, so that it does not fall when a
                      process ends
gauge                 of the running processes: the maximum, the minimum or the sum, as
                      `process.observability.metrics` declares
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from math import isnan
from typing import TypeVar

from msgspec.structs import replace

from router.process.observability.exposition import Snapshot
from router.process.observability.instruments import (
    Aggregation,
    HistogramBuckets,
    Labels,
    MetricFamily,
    Value,
)

T = TypeVar("T")

_GAUGES: Mapping[Aggregation, Callable[[Value, Value], Value]] = {
    Aggregation.MAX: max,
    Aggregation.MIN: min,
    Aggregation.SUM: operator.add,
}


def merge_snapshots(snapshots: Iterable[Snapshot]) -> Snapshot:
    """One snapshot of many. If two builds declare a family differently, the first declaration is
    used.
    """
    families: dict[str, MetricFamily] = {}
    for family in chain.from_iterable(snapshots):
        earlier = families.get(family.name)
        families[family.name] = family if earlier is None else _merge_families(earlier, family)
    return tuple(families.values())


def drop_gauges(snapshot: Snapshot) -> Snapshot:
    """The counters and histograms: what still counts of a process that has ended, drains or does
    not answer.
    """
    return tuple(family for family in snapshot if family.kind != "gauge")


def _merge_families(one: MetricFamily, other: MetricFamily) -> MetricFamily:
    if (one.kind, one.labels) != (other.kind, other.labels):
        return one
    if one.kind == "histogram":
        return replace(one, buckets=_merge_series(one.buckets, other.buckets, _add_buckets))
    combine = operator.add if one.kind == "counter" else _ignore_nan(_GAUGES[one.aggregation])
    exemplars = _merge_series(
        one.exemplars,
        other.exemplars,
        lambda first, second: first if first.at >= second.at else second,
    )
    return replace(
        one, series=_merge_series(one.series, other.series, combine), exemplars=exemplars
    )


def _merge_series(
    one: Mapping[Labels, T], other: Mapping[Labels, T], combine: Callable[[T, T], T]
) -> dict[Labels, T]:
    return {
        **one,
        **{
            labels: combine(one[labels], value) if labels in one else value
            for labels, value in other.items()
        },
    }


def _ignore_nan(combine: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    """A gauge whose function failed is NaN: then the value of the other process is used."""
    return lambda one, other: one if isnan(other) else other if isnan(one) else combine(one, other)


def _add_buckets(one: HistogramBuckets, other: HistogramBuckets) -> HistogramBuckets:
    if one.edges != other.edges:
        return one
    return HistogramBuckets(
        one.edges, tuple(map(operator.add, one.counts, other.counts)), one.total + other.total
    )
