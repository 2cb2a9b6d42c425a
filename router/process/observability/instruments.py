"""The instruments that the hot path counts with: plain ints and floats, written by the loop only,
read by the scrape only. Labels have a bounded number of values.

    Counter             one number                      metrics.replays.value += 1
    LabelledCounter     a number for each label set     metrics.acks["router-results",] += 1
    ExemplarCounter     the same, with the newest event of each series
    Histogram           a histogram                     metrics.decision_seconds.observe(0.0004)
    LabelledHistogram   a histogram for each label      metrics.extension_seconds[extension].observe(0.002)
    Gauge               a function for each label set   metrics.in_flight.set_function(lambda:
                                                        consumer.in_flight, "router-results")
    CallbackGauge       one function for all series     metrics.breaker_states.set_function(board.read_states)

Only `exposition` knows Prometheus. A `MetricFamily` is a copy, which another thread may read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from router.process.observability import events, logs
from router.process.observability.log_sink import LogRateLimit

log = logs.logger(__name__)

Labels = tuple[str, ...]
Ids = Mapping[str, str | None]  # of one event
Value = int | float
NO_FIGURE = float("nan")
MAX_EXEMPLAR = 128  # characters of all names and values, by the OpenMetrics specification

# Bucket edges in seconds: from the cost of a policy without extensions to the longest deadline of a
# policy.
LATENCY_EDGES_S = (
    5e-6,
    1e-5,
    2.5e-5,
    5e-5,
    1e-4,
    2.5e-4,
    5e-4,
    1e-3,
    2.5e-3,
    5e-3,
    1e-2,
    2.5e-2,
    5e-2,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
)


class HistogramBuckets(Struct, frozen=True):
    """A copy of a histogram. `counts[i]`: values up to `edges[i]` and above the edge before it; the
    last count: above all edges.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    total: float


class Aggregation(StrEnum):
    """How the values of one gauge in several processes become one: MAX where all processes measure
    the same thing.
    """

    MAX = "max"
    MIN = "min"  # ready when all processes are ready
    SUM = "sum"  # each process has its own part


class Exemplar(Struct, frozen=True):
    """One event of a series, named by its ids: only the OpenMetrics format has it. `at`: seconds
    since the epoch.
    """

    labels: Mapping[str, str]
    at: float


class MetricFamily(Struct, frozen=True):
    """A copy of one metric. `kind`: counter | gauge | histogram; `aggregation` applies to gauges, `exemplars` to counters."""

    name: str
    help: str
    kind: str
    labels: Labels
    series: Mapping[Labels, Value]
    buckets: Mapping[Labels, HistogramBuckets] = {}
    aggregation: Aggregation = Aggregation.MAX
    exemplars: Mapping[Labels, Exemplar] = {}


class Instrument(Protocol):
    """A metric that a registry can hold."""

    name: str

    def family(self) -> MetricFamily: ...


class Counter:
    """A counter without labels."""

    __slots__ = ("help", "name", "value")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.help = text
        self.value = 0

    def increment(self) -> None:
        """Add 1. The hot path adds to `value` directly, which saves the call."""
        self.value += 1

    def family(self) -> MetricFamily:
        return MetricFamily(self.name, self.help, "counter", (), {(): self.value})


class LabelledCounter(defaultdict[Labels, int]):
    """A counter with labels: a dictionary whose keys are the label values, in the order of
    `labels`.
    """

    __slots__ = ("help", "labels", "name")

    def __init__(self, name: str, text: str, *labels: str) -> None:
        super().__init__(int)
        self.name = name
        self.help = text
        self.labels = labels

    def family(self) -> MetricFamily:
        return MetricFamily(self.name, self.help, "counter", self.labels, dict(self))


class ExemplarCounter(LabelledCounter):
    """A LabelledCounter that remembers the newest event of each series: `counter.note(labels,
    {"trace_id": …}, now)`.
    """

    __slots__ = ("_newest",)

    def __init__(self, name: str, text: str, *labels: str) -> None:
        super().__init__(name, text, *labels)
        self._newest: dict[Labels, tuple[Ids, float]] = {}

    def note(self, labels: Labels, ids: Ids, at: float) -> None:
        """Count one. An id that is None is not known."""
        self[labels] += 1
        self._newest[labels] = ids, at

    def family(self) -> MetricFamily:
        """Of the ids those are told that fit into an exemplar, the first ones first. It is built at
        a scrape, not at each event.
        """
        exemplars = {
            labels: Exemplar(_fit(ids), at) for labels, (ids, at) in dict(self._newest).items()
        }
        return MetricFamily(
            self.name, self.help, "counter", self.labels, dict(self), exemplars=exemplars
        )


def _fit(ids: Ids) -> Mapping[str, str]:
    fitting, room = {}, MAX_EXEMPLAR
    for name, value in ids.items():
        if value is not None and len(name) + len(value) <= room:
            fitting[name] = value
            room -= len(name) + len(value)
    return fitting


class Histogram:
    """A histogram without labels. `edges`: upper bounds, rising, inclusive."""

    __slots__ = ("_counts", "_edges", "_total", "help", "name")

    def __init__(self, name: str, text: str, edges: tuple[float, ...] = LATENCY_EDGES_S) -> None:
        self.name = name
        self.help = text
        self._edges = edges
        self._counts = [0] * (len(edges) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._edges, value)] += 1
        self._total += value

    def family(self) -> MetricFamily:
        return MetricFamily(self.name, self.help, "histogram", (), {}, {(): self.buckets()})

    def buckets(self) -> HistogramBuckets:
        return HistogramBuckets(self._edges, tuple(self._counts), self._total)


class LabelledHistogram(dict[str, Histogram]):
    """A histogram for each value of one label, created at its first use."""

    __slots__ = ("help", "label", "name")

    def __init__(self, name: str, text: str, label: str) -> None:
        super().__init__()
        self.name = name
        self.help = text
        self.label = label

    def __missing__(self, value: str) -> Histogram:
        histogram = self[value] = Histogram(self.name, self.help)
        return histogram

    def family(self) -> MetricFamily:
        return MetricFamily(
            self.name,
            self.help,
            "histogram",
            (self.label,),
            {},
            {(value,): histogram.buckets() for value, histogram in self.items()},
        )


class Gauge:
    """Calls a function for each label set at each scrape, on the loop: the function must be quick
    and must not wait.
    """

    __slots__ = ("_functions", "_log_limit", "aggregation", "help", "labels", "name")

    def __init__(
        self, name: str, text: str, *labels: str, aggregation: Aggregation = Aggregation.MAX
    ) -> None:
        self.name = name
        self.help = text
        self.labels = labels
        self.aggregation = aggregation
        self._functions: dict[Labels, Callable[[], Value]] = {}
        self._log_limit = LogRateLimit(every_s=60.0)

    def set_function(self, function: Callable[[], Value], *values: str) -> None:
        """Read the series of these label values by `function`; it replaces an earlier one (that of
        a restarted child).
        """
        self._functions[values] = function

    def set(self, value: Value, *values: str) -> None:
        """Set a constant value."""
        self.set_function(lambda: value, *values)

    def family(self) -> MetricFamily:
        series = {values: self._read(values) for values in self._functions}
        return MetricFamily(
            self.name, self.help, "gauge", self.labels, series, aggregation=self.aggregation
        )

    def _read(self, values: Labels) -> Value:
        try:
            return self._functions[values]()
        except Exception:  # one failing function must not keep the other metrics from being read
            if self._log_limit.allow(values):
                log.exception(events.GAUGE_FAILED, metric=self.name, labels=values)
            return NO_FIGURE


class CallbackGauge:
    """A gauge or counter whose series come and go: one function, called on the loop at each scrape,
    returns them all.
    """

    __slots__ = ("_function", "_log_limit", "aggregation", "help", "kind", "labels", "name")

    def __init__(
        self,
        name: str,
        text: str,
        *labels: str,
        kind: str = "gauge",
        aggregation: Aggregation = Aggregation.MAX,
    ) -> None:
        self.name = name
        self.help = text
        self.labels = labels
        self.kind = kind
        self.aggregation = aggregation
        self._function: Callable[[], Mapping[Labels, Value]] = dict
        self._log_limit = LogRateLimit(every_s=60.0)

    def set_function(self, function: Callable[[], Mapping[Labels, Value]]) -> None:
        self._function = function

    def family(self) -> MetricFamily:
        return MetricFamily(
            self.name,
            self.help,
            self.kind,
            self.labels,
            self._series(),
            aggregation=self.aggregation,
        )

    def _series(self) -> Mapping[Labels, Value]:
        try:
            return dict(self._function())
        except Exception:  # as in Gauge
            if self._log_limit.allow(self.name):
                log.exception(events.GAUGE_FAILED, metric=self.name)
            return {}


# -- Metric labels with a bounded number of values: senders choose the names, and every new value
# costs Prometheus a time series.
#
# Both classes are dictionaries from a name to its label, so a known name costs one lookup:
# `metrics.policy[policy_id]`. A label has at most 128 characters. A character that cannot be
# printed (a control character, one that changes the direction of text) is escaped.


OTHER = "other"
MAX_LABEL = 128  # characters; the longest legal id
_CUT = "…"


def label_of(name: str) -> str:
    """The name as a label: shortened, without characters that control a terminal."""
    short = _cut(name)
    if short.isprintable():
        return short
    return _cut(
        "".join(
            c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode()
            for c in short
        )
    )


def _cut(text: str) -> str:
    return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + _CUT


class BoundedLabels(dict[str, str]):
    """The first `limit` distinct names are labels of their own; every later name is "other"."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def __missing__(self, name: str) -> str:
        label = label_of(name)
        if label in self:
            return label
        if len(self) >= self.limit:
            return OTHER
        self[label] = label  # never under the name itself, which may be a megabyte
        return label


class AllowedLabels(dict[str, str]):
    """Listed names are labels of their own; every other name is "other"
    (METRICS_TENANT_LABEL_ALLOWLIST).
    """

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__((name, label_of(name)) for name in names)

    def __missing__(self, name: str) -> str:
        return OTHER
