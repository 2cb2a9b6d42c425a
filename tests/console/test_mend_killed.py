"""A console that is killed in a replay: the next one, of another console, sends each message
exactly once.
"""

import asyncio
import os
import signal
from collections import Counter

import httpx2
import pytest

from router.config import Settings
from router.delivery.consume.stream_reader import open_reader
from router.delivery.wire.api import JetStream
from router.operate.audit import AuditReader
from tests.support.console import a_console, store_dead_letter
from tests.support.console_login import Browser, writing
from tests.support.console_process import ConsoleProcess, a_console_process
from tests.support.waiting import until

OTHER_POINTS = ("replay_noted:1", "replay_posted:2", "replay_removed:1")


@pytest.mark.parametrize(
    "crashpoint",
    ["replay_proven:2", *(pytest.param(name, marks=pytest.mark.matrix) for name in OTHER_POINTS)],
)
async def test_a_replay_whose_console_is_killed_is_finished_by_the_next(
    settings: Settings, jetstream: JetStream, crashpoint: str
) -> None:
    """150 dead letters are two handfuls: it dies in the second."""
    await store_many(jetstream, settings, 150)
    with a_console_process(settings, crashpoint) as console:
        await begin_replay(console)
        assert await asyncio.to_thread(console.wait) in (-signal.SIGKILL, 137)
    async with a_console(writing(settings.nats.url[0])) as there:
        browser = Browser(there)
        await browser.log_in()
        await send_all(browser)
        await until(lambda: is_over(browser))
    await prove_each_once(jetstream, settings, 150)
    # what the killed one was about to do is known
    assert await list_outcomes(jetstream, settings) == ["begun", "begun", "done"]


@pytest.mark.matrix
async def test_a_console_that_is_killed_when_all_is_replayed_leaves_nothing_to_do(
    settings: Settings, jetstream: JetStream
) -> None:
    await store_many(jetstream, settings, 150)
    with a_console_process(settings, "replay_ending:1") as console:
        await begin_replay(console)
        assert await asyncio.to_thread(console.wait) in (-signal.SIGKILL, 137)
    assert await count_left(jetstream, settings) == 0
    await prove_each_once(jetstream, settings, 150)
    assert await list_outcomes(jetstream, settings) == ["begun"]


@pytest.mark.matrix
@pytest.mark.parametrize("share", [0.02, 0.3, 0.7])
async def test_ten_thousand_are_replayed_once_though_the_console_is_killed(
    settings: Settings, jetstream: JetStream, share: float
) -> None:
    await store_many(jetstream, settings, 10_000)
    with a_console_process(settings) as console:
        await begin_replay(console)
        await until(
            lambda: has_at_most(jetstream, settings, round(10_000 * (1 - share))), within_s=60
        )
        os.kill(console.process.pid, signal.SIGKILL)
        await asyncio.to_thread(console.wait)
    assert await count_left(jetstream, settings) > 0
    with a_console_process(settings) as console:
        browser = await begin_replay(console)
        await until(lambda: is_over(browser), within_s=120)
    await prove_each_once(jetstream, settings, 10_000)


async def store_many(jetstream: JetStream, settings: Settings, count: int) -> None:
    for begin in range(0, count, 200):
        numbers = range(begin, min(begin + 200, count))
        await asyncio.gather(
            *(store_dead_letter(jetstream, settings, b'{"n":%d}' % number) for number in numbers)
        )


async def begin_replay(console: ConsoleProcess) -> Browser:
    """All dead letters; it may die before it answers."""
    browser = await console.log_in()
    await send_all(browser)
    return browser


async def send_all(browser: Browser) -> None:
    await until(lambda: has_letters(browser))
    csrf = await browser.find_csrf("/dead-letters")
    try:
        sent = await browser.send(
            "/dead-letters/replay", {"csrf": csrf, "all": "yes", "note": "after the fix"}
        )
    except httpx2.TransportError:
        return
    assert sent.status_code == 303, sent.text


async def list_outcomes(jetstream: JetStream, settings: Settings) -> list[str]:
    return [
        one.event.outcome
        async for one in AuditReader(jetstream, settings.streams.audit.name).read()
    ]


async def has_letters(browser: Browser) -> bool:
    return 'name="all"' in (await browser.open("/dead-letters")).text


async def is_over(browser: Browser) -> bool:
    page = await browser.read("/dead-letters/runs")
    assert ">failed<" not in page
    return ">done<" in page


async def count_left(jetstream: JetStream, settings: Settings) -> int:
    info = await jetstream.stream(settings.streams.dlq.name)
    assert info is not None
    return int(info["state"]["messages"])


async def has_at_most(jetstream: JetStream, settings: Settings, most: int) -> bool:
    return await count_left(jetstream, settings) <= most


async def prove_each_once(jetstream: JetStream, settings: Settings, count: int) -> None:
    assert await count_left(jetstream, settings) == 0
    seen: Counter[bytes] = Counter()
    async with open_reader(jetstream, settings.streams.decide.name) as reader:
        while seen.total() < reader.total and (found := await reader.read(1_000)):
            seen.update(one.data for one in found)
    assert seen == Counter({b'{"n":%d}' % number: 1 for number in range(count)})
