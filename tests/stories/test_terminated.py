"""SIGTERM under load: what is begun is finished and settled, what is not begun goes to the next
router, and the process ends in time.
"""

import asyncio
import os
import signal
import time
from collections.abc import Iterator

import pytest
from nats.aio.client import Client

from router.config import Settings
from tests.support.service import RouterProcess, names_for
from tests.support.stories import Inboxes, is_settled, read_dead_letters
from tests.support.waiting import slack, until

REQUESTS = 2_500  # before the signal
PAUSE_S = 0.000_5  # between those that come while it leaves
HARD_DEADLINE_MS = 3_000
LEAVING_S = 20.0  # closing connections and ending the interpreter, on a machine with other work


@pytest.fixture
def router(nats_url: str, prefix: str) -> Iterator[RouterProcess]:
    names = names_for(nats_url, prefix)
    # what was answered from its passing copy and not acknowledged yet is decided again
    names["admission.fair_after_ms"] = ""
    with RouterProcess(
        {**names, "drain.soft_deadline_ms": 2_000, "drain.hard_deadline_ms": HARD_DEADLINE_MS}
    ) as process:
        yield process


async def test_it_leaves_in_time_and_nothing_finished_comes_again(
    nc: Client, settings: Settings, prefix: str, router: RouterProcess
) -> None:
    """Story 11: exit status 0 within the deadline; an answer that came twice would be finished work
    delivered again.
    """
    inboxes = await Inboxes.under(nc, prefix)
    for n in range(REQUESTS):
        await inboxes.publish_named(nc, settings, n)
    await until(lambda: len(inboxes) >= 20)
    began = time.monotonic()
    os.kill(router.pid, signal.SIGTERM)
    leaving, asked = asyncio.create_task(asyncio.to_thread(router.wait)), REQUESTS
    while not leaving.done():  # the load goes on for as long as it is there
        await inboxes.publish_named(nc, settings, asked)
        asked += 1
        await asyncio.sleep(PAUSE_S)
    assert await leaving == 0
    assert time.monotonic() - began < HARD_DEADLINE_MS / 1000 + LEAVING_S * slack()
    await nc.flush()

    async def is_all_accounted_for() -> bool:
        """Delivered = finished + handed back: nothing is left to the ack wait, nothing finished is
        still open.
        """
        info = await nc.jsm().consumer_info(settings.streams.decide.name, settings.decide.durable)
        return info.delivered.stream_seq - info.num_ack_pending == len(inboxes.heard)

    await until(
        is_all_accounted_for,
        what="the server has read the last acks, and this client the last answers",
    )
    assert 0 < len(inboxes.heard) < asked

    router.start()
    await until(lambda: len(inboxes.heard) >= asked, what="every request to be answered")
    await until(lambda: is_settled(nc, settings))
    assert inboxes.counts == {inboxes.of(n): 1 for n in range(asked)}
    assert await read_dead_letters(nc, settings) == []
