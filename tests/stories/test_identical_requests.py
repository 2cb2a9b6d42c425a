"""Identical requests without ids, and several routers that all hear them: each is answered, and not
by every router.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from nats.aio.client import Client

from router.config import Settings
from tests.support.patient_client import connect_patiently
from tests.support.service import a_router, settings_for
from tests.support.stories import SILENCE_S, Inboxes, MessageRecorder, a_request, is_settled
from tests.support.waiting import until

ROUTERS, REQUESTS = 4, 150


@pytest.fixture(params=["live copies", "stored copies"])
async def settings(
    nats_url: str, prefix: str, request: pytest.FixtureRequest
) -> AsyncIterator[Settings]:
    settings = settings_for(
        nats_url,
        prefix,
        reply__inbox_wait_ms=10_000,
        **({} if request.param == "live copies" else {"admission__fair_after_ms": None}),
    )
    async with AsyncExitStack() as stack:
        for _ in range(ROUTERS):
            await stack.enter_async_context(a_router(settings))
        yield settings


async def test_one_after_the_other_and_many_at_once(
    nc: Client, nats_url: str, settings: Settings
) -> None:
    """Each inbox has its answer, none goes astray. Twice is the exception, more on a busy machine;
    four routers gave four answers each.
    """
    inboxes, strays = (
        await Inboxes.under(nc, "same"),
        await MessageRecorder.on(nc, f"{settings.decide.subject}.reply"),
    )
    other = await connect_patiently(nats_url)
    for number in range(REQUESTS):
        await nc.publish(settings.decide.subject, a_request("same"), reply=inboxes.of(number))
        await until(lambda number=number: inboxes.of(number) in inboxes.heard)
    for number in range(REQUESTS, 3 * REQUESTS):
        publisher = nc if number % 2 else other
        await publisher.publish(
            settings.decide.subject, a_request("same"), reply=inboxes.of(number)
        )
    await until(lambda: len(inboxes.subjects) == 3 * REQUESTS)
    await until(lambda: is_settled(nc, settings))
    await asyncio.sleep(SILENCE_S)
    await other.close()

    assert len(strays) == 0
    assert len(inboxes) < ROUTERS * 3 * REQUESTS * 3 // 4
