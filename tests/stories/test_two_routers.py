"""Two routers share one durable: that is the work queue."""

import asyncio
from collections.abc import Iterator

import pytest
from nats.aio.client import Client

from router.config import Settings
from tests.support.service import RouterProcess, names_for
from tests.support.stories import (
    SILENCE_S,
    Inboxes,
    MessageRecorder,
    is_settled,
    read_dead_letters,
    read_metric,
)
from tests.support.waiting import until

REQUESTS = 5_000
# a busy server may tell of a request's inbox after its answer
PATIENT = {"reply.inbox_wait_ms": 10_000}
AT_A_TIME = 250  # published between two looks at what else there is to do


@pytest.fixture
def routers(nats_url: str, prefix: str) -> Iterator[list[RouterProcess]]:
    # Passing copies are another story (test_overload): there an answer may come twice when two routers
    # see the backlog differently.
    names = {**names_for(nats_url, prefix), "admission.fair_after_ms": "", **PATIENT}
    with RouterProcess(names) as one, RouterProcess(names) as other:
        yield [one, other]


async def test_each_request_is_answered_once_and_both_work(
    nc: Client, settings: Settings, prefix: str, routers: list[RouterProcess]
) -> None:
    """Story 7: 5 000 requests with plain inboxes, one answer each, none elsewhere; each router took
    some, however slow the other was.
    """
    inboxes = await Inboxes.under(nc, prefix)
    strays = await MessageRecorder.on(nc, f"{settings.decide.subject}.reply")
    for n in range(REQUESTS):
        await inboxes.publish(nc, settings, n)
        if n % AT_A_TIME == 0:
            await nc.flush()
    await until(lambda: len(inboxes) >= REQUESTS, within_s=20, what=f"{REQUESTS} answers")
    await until(lambda: is_settled(nc, settings))
    await asyncio.sleep(SILENCE_S)

    assert inboxes.counts == {inboxes.of(n): 1 for n in range(REQUESTS)}
    assert [answer for (answer,) in inboxes.heard.values() if b'"ok":true' not in answer] == []
    assert len(strays) == 0
    assert await read_dead_letters(nc, settings) == []
    taken = [
        await read_metric(router.ready["http"], "router_jetstream_ack_total") for router in routers
    ]
    assert sum(taken) == REQUESTS
    assert min(taken) > 0
