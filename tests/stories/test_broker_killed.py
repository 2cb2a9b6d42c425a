"""The broker dies under load and comes back on its store: the router finds it again by itself, and nothing acknowledged is gone."""

import asyncio
import contextlib

import nats.errors
from nats.aio.client import Client
from nats.js.errors import APIError

from router.config import Settings
from tests.support.broker import Broker
from tests.support.service import a_router, settings_for
from tests.support.stories import Inboxes, a_request, is_settled, letters
from tests.support.waiting import until

BEFORE, AFTER = 300, 100


async def test_after_a_kill_of_the_broker_it_pulls_again_and_nothing_acked_is_lost(nc: Client, broker: Broker, prefix: str) -> None:
    """Story 3: `kill -9` of nats-server under load; publishers hear PubAcks (confirm mode "stored"), so that acked has a meaning."""
    settings = settings_for(broker.url, prefix, reply__confirm="stored", decide__ack_wait_ms=1_000)
    inboxes = await Inboxes.under(nc, prefix)
    acked: set[int] = set()
    async with a_router(settings) as router:
        load = asyncio.create_task(_load(nc, settings, inboxes, acked))
        await until(lambda: len(acked) >= BEFORE)
        broker.kill()
        known = len(acked)
        broker.start()
        restarted = asyncio.get_running_loop().time()
        await until(lambda: len(acked) >= known + AFTER and len(inboxes.heard) > known, what="answers after the restart")
        assert asyncio.get_running_loop().time() - restarted < 10
        load.cancel()
        await asyncio.wait([load])

        await until(lambda: all(inboxes.answers(n) for n in acked), what="every acked request to be answered")
        await until(lambda: is_settled(nc, settings))
        assert all(len(set(answers)) == 1 for answers in inboxes.heard.values())
        assert await letters(nc, settings) == []
        assert all(check.ok for check in router.service.readiness().values())


async def _load(nc: Client, settings: Settings, inboxes: Inboxes, acked: set[int]) -> None:
    """Publish without a pause; what the broker did not acknowledge is nobody's promise."""
    js, n = nc.jetstream(timeout=0.5), 0
    while True:
        n += 1
        headers = {"Nats-Msg-Id": f"m-{n}", "Reply-To": inboxes.of(n)}
        with contextlib.suppress(nats.errors.Error, APIError, OSError):
            await js.publish(settings.decide.subject, a_request(n), headers=headers)
            acked.add(n)
        await asyncio.sleep(0)
