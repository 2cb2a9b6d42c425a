"""Takes a sample of all routers and of the broker every few seconds, and keeps those of the last ten minutes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from msgspec import Struct

from router.app import declare_topology
from router.config import Settings
from router.console.broker_link import BrokerLink, HeardAlert
from router.console.figures import ConsumerBacklog, Figures, Sample, compute_figures
from router.console.scrape import scrape_all
from router.core.clock import wall
from router.core.errors import RouterError

SAMPLE_EVERY_S = 5.0
KEPT_SAMPLES = 121  # ten minutes
WINDOW_S = 60.0


class NowState(Struct, frozen=True):
    """What the page Now shows. `figures` None: there are no two samples yet. `series`: seconds, decisions a second, p50, p99, backlog."""

    sample: Sample | None
    figures: Figures | None
    alerts: Sequence[HeardAlert]
    hears_since: float | None
    series: Sequence[Sequence[float | None]]
    broker_cause: str = ""


class Sampler:
    """A child of the console's tree. `on_sample` is called after each sample."""

    def __init__(self, settings: Settings, link: BrokerLink, on_sample: Callable[[NowState], None]) -> None:
        self._settings = settings
        self._link = link
        self._on_sample = on_sample
        self._samples: deque[Sample] = deque(maxlen=KEPT_SAMPLES)
        self._points: deque[tuple[float, float | None, float | None, float | None, int | None]] = deque(maxlen=KEPT_SAMPLES)

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            await self.take_sample()
            await asyncio.sleep(SAMPLE_EVERY_S)

    async def take_sample(self) -> None:
        totals = await asyncio.to_thread(scrape_all, self._settings.console.metrics)
        at, backlog, dead_letters, cause = wall(), None, None, ""
        try:
            backlog, dead_letters = await self._read_backlog()
        except RouterError as exc:
            cause = str(exc)
        sample = Sample(at, totals, backlog, dead_letters, cause)
        if self._samples:
            step = compute_figures(self._samples[-1], sample)
            pending = sum(one.pending for one in backlog) if backlog is not None else None
            self._points.append((at, step.rate, step.p50, step.p99, pending))
        self._samples.append(sample)
        self._on_sample(self.read_state())

    def read_state(self) -> NowState:
        """The figures of the last minute, or of as much of it as there is."""
        link, samples = self._link, self._samples
        series = [list(column) for column in zip(*self._points, strict=True)]
        if not samples:
            return NowState(None, None, tuple(link.alerts), link.hears_since, series)
        last = samples[-1]
        before = next((one for one in samples if last.at - one.at <= WINDOW_S), last)
        figures = compute_figures(before, last) if before is not last else None
        return NowState(last, figures, tuple(link.alerts), link.hears_since, series, last.cause)

    async def _read_backlog(self) -> tuple[tuple[ConsumerBacklog, ...], int | None]:
        jetstream, found = self._link.jetstream(), []
        for spec in declare_topology(self._settings).consumers:
            info = await jetstream.consumer(spec.stream, spec.durable)
            if info is not None:
                figures = (int(info[name]) for name in ("num_pending", "num_ack_pending", "num_redelivered"))
                found.append(ConsumerBacklog(spec.stream, spec.durable, *figures))
        letters = await jetstream.stream(self._settings.streams.dlq.name)
        return tuple(found), int(letters["state"]["messages"]) if letters is not None else None
