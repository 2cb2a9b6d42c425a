"""Expositions of several processes added up into one. Pure.

counter, histogram    the sum over the living and the dead, so that it does not fall when a process ends
gauge                 of those at work: the most, the least or the sum, as its declaration in the catalog says
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from math import isnan
from typing import TypeVar

from msgspec.structs import replace

from router.observability.exposition import Snapshot
from router.observability.instruments import Aggregation, HistogramBuckets, Labels, MetricFamily, Value

T = TypeVar("T")

_GAUGES: Mapping[Aggregation, Callable[[Value, Value], Value]] = {
    Aggregation.MAX: max,
    Aggregation.MIN: min,
    Aggregation.SUM: operator.add,
}


def added(snapshots: Iterable[Snapshot]) -> Snapshot:
    """One exposition of many. Of a family that two builds declare differently, the first one's form holds."""
    families: dict[str, MetricFamily] = {}
    for family in chain.from_iterable(snapshots):
        known = families.get(family.name)
        families[family.name] = family if known is None else _sum(known, family)
    return tuple(families.values())


def lasting(snapshot: Snapshot) -> Snapshot:
    """What stays of a process that has ended, drains or does not answer: what it counted, not how it stood."""
    return tuple(family for family in snapshot if family.kind != "gauge")


def _sum(one: MetricFamily, other: MetricFamily) -> MetricFamily:
    if (one.kind, one.labels) != (other.kind, other.labels):
        return one
    if one.kind == "histogram":
        return replace(one, buckets=_merged(one.buckets, other.buckets, _poured))
    how = operator.add if one.kind == "counter" else _knowing(_GAUGES[one.aggregation])
    return replace(one, series=_merged(one.series, other.series, how))


def _merged(one: Mapping[Labels, T], other: Mapping[Labels, T], how: Callable[[T, T], T]) -> dict[Labels, T]:
    return {**one, **{labels: how(one[labels], value) if labels in one else value for labels, value in other.items()}}


def _knowing(how: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    """A reader that failed says NaN: then the others' word holds."""
    return lambda one, other: one if isnan(other) else other if isnan(one) else how(one, other)


def _poured(one: HistogramBuckets, other: HistogramBuckets) -> HistogramBuckets:
    if one.edges != other.edges:
        return one
    return HistogramBuckets(one.edges, tuple(map(operator.add, one.counts, other.counts)), one.total + other.total)
