"""Renders the instruments as Prometheus' text, or as OpenMetrics with exemplars, without blocking
the event loop.

    snapshot   on the loop      copies of the numbers, microseconds
    render     in a thread      text, by prometheus_client

The thread and the loop share one interpreter lock, which a busy thread releases only every 5 ms. So
rendering pauses after a few dozen samples, and the loop never waits longer than these take.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from math import inf
from typing import cast

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client import samples as client
from prometheus_client.core import Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.samples import Sample

from router.process.observability.instruments import (
    Exemplar,
    HistogramBuckets,
    Instrument,
    Labels,
    MetricFamily,
)

CONTENT_TYPE = CONTENT_TYPE_LATEST
OPEN_METRICS = openmetrics.CONTENT_TYPE_LATEST
_SAMPLES_PER_PAUSE = 50  # about 0.3 ms
_PAUSE_S = 50e-6

Snapshot = tuple[MetricFamily, ...]


class MetricRegistry:
    """All instruments of a process. A name can be registered once."""

    def __init__(self) -> None:
        self._instruments: dict[str, Instrument] = {}

    def add(self, instrument: Instrument) -> None:
        """Raises ValueError if the name is registered already."""
        if instrument.name in self._instruments:
            raise ValueError(f"the metric {instrument.name} is registered already")
        self._instruments[instrument.name] = instrument

    def snapshot(self) -> Snapshot:
        """Copies of the numbers. Call it on the loop's thread only: the instruments have no locks."""
        return tuple(instrument.family() for instrument in self._instruments.values())

    async def exposition(self, content_type: str = CONTENT_TYPE) -> bytes:
        """The text of all instruments, and of the process."""
        return await asyncio.to_thread(render, self.snapshot(), content_type=content_type)


def choose_content_type(accept: str) -> str:
    """OPEN_METRICS for a scraper that takes it, as Prometheus does where it stores exemplars; else
    Prometheus' text.
    """
    types = [accepted.partition(";")[0].strip().lower() for accepted in accept.split(",")]
    return OPEN_METRICS if OPEN_METRICS.partition(";")[0] in types else CONTENT_TYPE


def render(
    snapshot: Sequence[MetricFamily], *, process: bool = True, content_type: str = CONTENT_TYPE
) -> bytes:
    """The text of a snapshot, and of the process (memory, CPU, open files). Call it in a thread."""
    scrape = _Scrape(snapshot, _PROCESS if process else None)
    if content_type == OPEN_METRICS:
        return cast("bytes", openmetrics.generate_latest(scrape))  # type: ignore[no-untyped-call]
    return generate_latest(scrape)


def process_families(pid: int, process: str) -> Snapshot:
    """Memory, CPU and open files of another process, under the label `process`. Empty when it has
    ended, or where there is no /proc.
    """
    collector = ProcessCollector(pid=lambda: pid, registry=CollectorRegistry(auto_describe=True))
    return tuple(
        MetricFamily(
            family.samples[0].name,
            family.documentation,
            family.type,
            ("process",),
            {(process,): family.samples[0].value},
        )
        for family in collector.collect()
        if family.samples
    )


class _Scrape(Collector):
    def __init__(self, snapshot: Sequence[MetricFamily], process: Collector | None) -> None:
        self._snapshot = snapshot
        self._process = process

    def collect(self) -> Iterable[Metric]:
        for family in self._snapshot:
            metric = Metric(family.name.removesuffix("_total"), family.help, family.kind)
            metric.samples = _pause_between(_samples(family))  # type: ignore[assignment]  # it is iterated once
            yield metric
        if self._process is not None:
            yield from self._process.collect()


def _pause_between(samples: Iterable[Sample]) -> Iterator[Sample]:
    for number, sample in enumerate(samples, 1):
        yield sample
        if number % _SAMPLES_PER_PAUSE == 0:
            time.sleep(_PAUSE_S)


def _samples(family: MetricFamily) -> Iterator[Sample]:
    if family.kind == "histogram":
        return chain.from_iterable(
            _histogram(family, values, buckets) for values, buckets in family.buckets.items()
        )
    return (
        Sample(
            family.name,
            dict(zip(family.labels, values, strict=True)),
            value,
            exemplar=_build_exemplar(family.exemplars.get(values)),
        )
        for values, value in family.series.items()
    )


def _build_exemplar(exemplar: Exemplar | None) -> client.Exemplar | None:
    return None if exemplar is None else client.Exemplar(dict(exemplar.labels), 1.0, exemplar.at)


def _histogram(family: MetricFamily, values: Labels, buckets: HistogramBuckets) -> Iterator[Sample]:
    name, labels = family.name, dict(zip(family.labels, values, strict=True))
    sums = list(accumulate(buckets.counts))
    for edge, count in zip((*buckets.edges, inf), sums, strict=True):
        yield Sample(
            f"{name}_bucket", {**labels, "le": "+Inf" if edge == inf else repr(edge)}, count
        )
    yield Sample(f"{name}_count", labels, sums[-1])
    yield Sample(f"{name}_sum", labels, buckets.total)


# not the global registry: an embedding program may use that
_PROCESS = ProcessCollector(registry=CollectorRegistry(auto_describe=True))
