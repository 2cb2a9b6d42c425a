"""The figures of the page Now: read once for all pages that are looked at, and not at all while
there is none.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from router.shell import sampler as module
from router.shell.broker_link import BrokerLink
from router.shell.sampler import READ_ON_S, NowState, Sampler
from router.shell.scrape import MetricTotals, RouterState
from tests.support.beside import beside
from tests.support.console import console_settings
from tests.support.waiting import until

NOWHERE = console_settings("nats://127.0.0.1:1")


class Watched:
    """A sampler without a broker, with its pages and its clock."""

    def __init__(self) -> None:
        self.live = 0
        self.at = 0.0
        self.samples: list[NowState] = []
        self.sampler = Sampler(
            NOWHERE, BrokerLink(NOWHERE), self.samples.append, lambda: self.live, lambda: self.at
        )

    async def has(self, count: int) -> bool:
        return len(self.samples) >= count

    async def is_idle(self) -> bool:
        return not self.sampler.is_sampling


@asynccontextmanager
async def a_sampler(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watched]:
    monkeypatch.setattr(module, "SAMPLE_EVERY_S", 0.005)
    monkeypatch.setattr(module, "FIRST_WITHIN_S", 60.0)
    watched = Watched()
    async with beside(watched.sampler.run()):
        yield watched


async def test_nothing_is_asked_until_a_page_is_opened_and_after_the_last_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_sampler(monkeypatch) as watched:
        await asyncio.sleep(0.05)
        assert watched.samples == []
        opened = await watched.sampler.read_now()
        assert opened.sample is not None  # it waited for the first
        await until(lambda: watched.has(3))
        watched.at += READ_ON_S
        await until(watched.is_idle)
        taken = len(watched.samples)
        await asyncio.sleep(0.05)
        assert len(watched.samples) == taken


async def test_a_live_page_is_read_for_as_long_as_it_is_live(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_sampler(monkeypatch) as watched:
        watched.live = 1
        watched.sampler.begin()
        watched.at += READ_ON_S * 100
        await until(lambda: watched.has(3))
        assert watched.sampler.is_sampling
        watched.live = 0
        await until(watched.is_idle)


async def test_a_chart_has_no_line_where_nothing_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    watched, routers = Watched(), (RouterState("http://127.0.0.1:9000"),)
    monkeypatch.setattr(
        module,
        "scrape_all",
        lambda _: MetricTotals(Counter(), Counter(), Counter(), Counter(), routers),
    )
    for at in (0.0, 2.0, 600.0, 602.0):
        monkeypatch.setattr(module, "wall", lambda at=at: at)
        await watched.sampler.take_sample()
    assert watched.sampler.read_state().series[1] == [0.0, None, 0.0]
