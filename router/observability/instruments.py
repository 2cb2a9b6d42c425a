"""What the hot path counts with: plain ints and floats, written by the loop alone, read by the scrape alone.

    Count    one number              metrics.replays.value += 1
    Tally    one number a label set  metrics.acks["router-results",] += 1
    Spread   a histogram             metrics.decision_seconds.observe(0.0004)
    Spreads  a histogram a label     metrics.extension_seconds[extension].observe(0.002)
    Gauge    asks when scraped       metrics.in_flight.watch(lambda: lane.in_flight, "router-results")
    Census   asks for all its series metrics.breaker_states.watch(board.census)

Nothing here knows Prometheus; `exposition` does. A `Family` is a copy that another thread may read at leisure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from router.observability import events, logs
from router.observability.once import Once

log = logs.logger(__name__)

Labels = tuple[str, ...]
Value = int | float
UNKNOWN = float("nan")

# Seconds, from what a policy without extensions costs to the longest deadline of a policy.
SECONDS = (
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


class Buckets(Struct, frozen=True):
    """A histogram at one moment: `counts[i]` fell at or below `edges[i]` and above the edge before; the last one above all."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    total: float


class Together(StrEnum):
    """What a gauge says of several processes: most of them look at one thing, and then the most is as good as any."""

    MOST = "most"
    LEAST = "least"  # all is well when all are
    SUM = "sum"  # each has its own


class Family(Struct, frozen=True):
    """One metric at one moment. `kind`: counter | gauge | histogram; `together`: for gauges."""

    name: str
    help: str
    kind: str
    labels: Labels
    series: Mapping[Labels, Value]
    buckets: Mapping[Labels, Buckets] = {}
    together: Together = Together.MOST


class Instrument(Protocol):
    """Anything that a registry holds."""

    name: str

    def family(self) -> Family: ...


class Count:
    """A counter without labels."""

    __slots__ = ("help", "name", "value")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.help = text
        self.value = 0

    def up(self) -> None:
        """One more, for whoever is only to count; a hot path adds to `value` itself."""
        self.value += 1

    def family(self) -> Family:
        return Family(self.name, self.help, "counter", (), {(): self.value})


class Tally(defaultdict[Labels, int]):
    """A counter with labels: a dictionary whose keys are the label values, in the order of `labels`."""

    __slots__ = ("help", "labels", "name")

    def __init__(self, name: str, text: str, *labels: str) -> None:
        super().__init__(int)
        self.name = name
        self.help = text
        self.labels = labels

    def family(self) -> Family:
        return Family(self.name, self.help, "counter", self.labels, dict(self))


class Spread:
    """A histogram without labels. `edges`: upper bounds, rising, inclusive."""

    __slots__ = ("_counts", "_edges", "_total", "help", "name")

    def __init__(self, name: str, text: str, edges: tuple[float, ...] = SECONDS) -> None:
        self.name = name
        self.help = text
        self._edges = edges
        self._counts = [0] * (len(edges) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._edges, value)] += 1
        self._total += value

    def family(self) -> Family:
        return Family(self.name, self.help, "histogram", (), {}, {(): self.buckets()})

    def buckets(self) -> Buckets:
        return Buckets(self._edges, tuple(self._counts), self._total)


class Spreads(dict[str, Spread]):
    """A histogram for each value of one label, made when it is first asked for."""

    __slots__ = ("help", "label", "name")

    def __init__(self, name: str, text: str, label: str) -> None:
        super().__init__()
        self.name = name
        self.help = text
        self.label = label

    def __missing__(self, value: str) -> Spread:
        spread = self[value] = Spread(self.name, self.help)
        return spread

    def family(self) -> Family:
        return Family(self.name, self.help, "histogram", (self.label,), {}, {(value,): one.buckets() for value, one in self.items()})


class Gauge:
    """A value that somebody else keeps: asked on the loop at each scrape, so the callback must be quick and must not wait."""

    __slots__ = ("_once", "_readers", "help", "labels", "name", "together")

    def __init__(self, name: str, text: str, *labels: str, together: Together = Together.MOST) -> None:
        self.name = name
        self.help = text
        self.labels = labels
        self.together = together
        self._readers: dict[Labels, Callable[[], Value]] = {}
        self._once = Once(every_s=60.0)

    def watch(self, read: Callable[[], Value], *values: str) -> None:
        """Read this series by `read` from now on; the same label values again replace the reader (a restarted child)."""
        self._readers[values] = read

    def set(self, value: Value, *values: str) -> None:
        """A value that stays as it is until set again."""
        self.watch(lambda: value, *values)

    def family(self) -> Family:
        series = {values: self._read(values) for values in self._readers}
        return Family(self.name, self.help, "gauge", self.labels, series, together=self.together)

    def _read(self, values: Labels) -> Value:
        try:
            return self._readers[values]()
        except Exception:
            # One broken reader must not take the other metrics with it.
            if self._once.allows(values):
                log.exception(events.GAUGE_FAILED, metric=self.name, labels=values)
            return UNKNOWN


class Census:
    """A gauge (or a counter) whose series come and go: somebody else knows them all, and is asked on the loop at each scrape."""

    __slots__ = ("_once", "_read", "help", "kind", "labels", "name", "together")

    def __init__(self, name: str, text: str, *labels: str, kind: str = "gauge", together: Together = Together.MOST) -> None:
        self.name = name
        self.help = text
        self.labels = labels
        self.kind = kind
        self.together = together
        self._read: Callable[[], Mapping[Labels, Value]] = dict
        self._once = Once(every_s=60.0)

    def watch(self, read: Callable[[], Mapping[Labels, Value]]) -> None:
        self._read = read

    def family(self) -> Family:
        return Family(self.name, self.help, self.kind, self.labels, self._series(), together=self.together)

    def _series(self) -> Mapping[Labels, Value]:
        try:
            return dict(self._read())
        except Exception:
            # As with a gauge: the other metrics stay.
            if self._once.allows(self.name):
                log.exception(events.GAUGE_FAILED, metric=self.name)
            return {}
