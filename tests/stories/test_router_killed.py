"""The router dies, and what the stream holds is decided by the next one."""

import os
import signal
from collections.abc import Iterator

import pytest
from nats.aio.client import Client

from router.config import Settings
from tests.support.service import RouterProcess, names_for
from tests.support.stories import Inboxes, is_settled, read_dead_letters, read_last_sequence
from tests.support.waiting import until

REQUESTS = 1_000
# so long a busy machine hardly lets a router stand still: what it has in hand then would come again
ACK_WAIT_MS = 5_000


@pytest.fixture
def router(nats_url: str, prefix: str) -> Iterator[RouterProcess]:
    with RouterProcess(
        {**names_for(nats_url, prefix), "decide.ack_wait_ms": ACK_WAIT_MS}
    ) as process:
        yield process


async def test_what_was_stored_and_unanswered_is_decided_after_a_kill(
    nc: Client, settings: Settings, prefix: str, router: RouterProcess
) -> None:
    """Story 2: `kill -9` with 1 000 requests stored and none answered; each is decided once."""
    inboxes = await Inboxes.under(nc, prefix)
    os.kill(router.pid, signal.SIGSTOP)  # connected, its pull request open, and deaf
    for n in range(REQUESTS):
        await inboxes.publish_named(nc, settings, n)
    await until(lambda: _all_stored(nc, settings))
    router.kill()
    assert len(inboxes) == 0

    router.start()
    await until(
        lambda: len(inboxes.heard) >= REQUESTS, within_s=20, what="every request to be answered"
    )
    await until(lambda: is_settled(nc, settings))
    assert inboxes.counts == {inboxes.of(n): 1 for n in range(REQUESTS)}
    assert all(b'"ok":true' in inboxes.answers(n)[0] for n in range(REQUESTS))
    assert await read_dead_letters(nc, settings) == []


async def test_a_kill_amid_the_work_loses_nothing_and_changes_no_answer(
    nc: Client, settings: Settings, prefix: str, router: RouterProcess
) -> None:
    """Story 2: `kill -9` while 1 000 requests are being answered; who hears twice hears the same."""
    inboxes = await Inboxes.under(nc, prefix)
    asked = await _ask_and_kill(nc, settings, inboxes, router, 0)
    # it had done them all before this process came to its kill: once more
    while await is_settled(nc, settings):
        router.start()
        asked = await _ask_and_kill(nc, settings, inboxes, router, asked)

    router.start()
    await until(
        lambda: len(inboxes.heard) >= asked, within_s=20, what="every request to be answered"
    )
    await until(lambda: is_settled(nc, settings))
    assert all(len(set(answers)) == 1 for answers in inboxes.heard.values())
    assert await read_dead_letters(nc, settings) == []


async def _ask_and_kill(
    nc: Client, settings: Settings, inboxes: Inboxes, router: RouterProcess, asked: int
) -> int:
    """A thousand requests more, and the kill after ten of their answers; how many were asked by
    then.
    """
    for n in range(asked, asked + REQUESTS):
        await inboxes.publish_named(nc, settings, n)
    await until(lambda: len(inboxes.heard) >= asked + 10)
    router.kill()
    return asked + REQUESTS


async def _all_stored(nc: Client, settings: Settings) -> bool:
    return await read_last_sequence(nc, settings) == REQUESTS
