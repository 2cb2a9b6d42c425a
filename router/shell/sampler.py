"""Takes a sample of all routers and of the broker every two seconds while a page Now is looked at,
one for all; else nothing is asked.

    a watched page         sampled as long as there is one: `count_watched`
    a page that is opened  sampled for `READ_ON_S` more, so that it has rates when it is asked
                           again, also without scripts

Kept: the samples of the last minute, which the figures are computed from, and the points of the
charts for ten.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import Struct

from router.config import Settings
from router.core.clock import Clock, steady, wall
from router.core.errors import RouterError
from router.operate.topology.declared_topology import declare_topology
from router.shell.broker_link import BrokerLink, HeardAlert
from router.shell.scrape import ConsumerBacklog, Figures, Sample, compute_figures, scrape_all

SAMPLE_EVERY_S = 2.0  # a person reads no faster
WINDOW_S = 60.0
READ_ON_S = 10.0
GAP_S = 3 * SAMPLE_EVERY_S  # between two samples: a chart has no line there
FIRST_WITHIN_S = 0.2  # that a page waits for a sample, if there is none of these seconds
KEPT_SAMPLES = int(WINDOW_S / SAMPLE_EVERY_S) + 1
KEPT_POINTS = 300  # ten minutes

Point = tuple[float, float | None, float | None, float | None]


class NowState(Struct, frozen=True):
    """What the page Now shows. `figures` None: there are no two samples yet. `series`: seconds,
    decisions a second, p50, p99.
    """

    sample: Sample | None
    figures: Figures | None
    alerts: Sequence[HeardAlert]
    hears_since: float | None
    series: Sequence[Sequence[float | None]]
    broker_cause: str = ""


class Sampler:
    """A child of the console's tree. `on_sample` is called after each sample; `count_watched`:
    pages that show each of them.
    """

    def __init__(
        self,
        settings: Settings,
        link: BrokerLink,
        on_sample: Callable[[NowState], None],
        count_watched: Callable[[], int],
        clock: Clock = steady,
    ) -> None:
        self._settings = settings
        self._link = link
        self._on_sample = on_sample
        self._count_watched = count_watched
        self._clock = clock
        self._samples: deque[Sample] = deque(maxlen=KEPT_SAMPLES)
        self._points: deque[Point] = deque(maxlen=KEPT_POINTS)
        self._wanted = asyncio.Event()
        self._wanted_until = 0.0
        self._taken = asyncio.Event()  # at the next sample; then there is a new one

    async def run(self) -> None:
        """Sample until cancelled, while there is a page for it."""
        while True:
            await self._wanted.wait()
            await self.take_sample()
            await asyncio.sleep(SAMPLE_EVERY_S)
            if not self._count_watched() and self._clock() >= self._wanted_until:
                self._wanted.clear()

    @property
    def is_sampling(self) -> bool:
        return self._wanted.is_set()

    def begin(self) -> None:
        """A page is looked at: sample for some seconds from now on, and as long as it is watched."""
        self._wanted_until = self._clock() + READ_ON_S
        self._wanted.set()

    async def read_now(self) -> NowState:
        """The state for a page that is opened: after a sample, if the last one is old and the next
        comes soon.
        """
        self.begin()
        if not self._samples or wall() - self._samples[-1].at > GAP_S:
            with suppress(TimeoutError):
                async with asyncio.timeout(FIRST_WITHIN_S):
                    await self._taken.wait()
        return self.read_state()

    async def take_sample(self) -> None:
        totals = await asyncio.to_thread(scrape_all, self._settings.console.metrics)
        at, backlog, dead_letters, cause = wall(), None, None, ""
        try:
            backlog, dead_letters = await self._read_backlog()
        except RouterError as exc:
            cause = str(exc)
        sample = Sample(at, totals, backlog, dead_letters, cause)
        if self._samples:
            self._points.append(_build_point(self._samples[-1], sample))
        self._samples.append(sample)
        self._on_sample(self.read_state())
        taken, self._taken = self._taken, asyncio.Event()
        taken.set()

    def read_state(self) -> NowState:
        """The figures of the last minute, or of as much of it as there is."""
        link, samples = self._link, self._samples
        series = [list(column) for column in zip(*self._points, strict=True)]
        if not samples:
            return NowState(None, None, tuple(link.alerts), link.hears_since, series)
        last = samples[-1]
        before = next((sample for sample in samples if last.at - sample.at <= WINDOW_S), last)
        figures = compute_figures(before, last) if before is not last else None
        return NowState(last, figures, tuple(link.alerts), link.hears_since, series, last.cause)

    async def _read_backlog(self) -> tuple[tuple[ConsumerBacklog, ...], int | None]:
        jetstream, backlogs = self._link.jetstream(), []
        for spec in declare_topology(self._settings).consumers:
            info = await jetstream.consumer(spec.stream, spec.durable)
            if info is not None:
                figures = (
                    int(info[name])
                    for name in ("num_pending", "num_ack_pending", "num_redelivered")
                )
                backlogs.append(ConsumerBacklog(spec.stream, spec.durable, *figures))
        dead_letters = await jetstream.stream(self._settings.streams.dlq.name)
        return tuple(backlogs), int(
            dead_letters["state"]["messages"]
        ) if dead_letters is not None else None


def _build_point(before: Sample, after: Sample) -> Point:
    """Rounded to what a chart shows; without values where nothing was asked in between."""
    at = round(after.at, 1)
    if after.at - before.at > GAP_S:
        return at, None, None, None
    step = compute_figures(before, after)
    return at, _round(step.rate), _round(step.p50), _round(step.p99)


def _round(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
