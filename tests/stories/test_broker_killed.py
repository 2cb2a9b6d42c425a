"""The broker dies under load and comes back on its store: the router finds it again by itself, and
nothing acknowledged is gone.
"""

import asyncio
import contextlib
from typing import Any

import nats.errors
import pytest
from nats.aio.client import Client
from nats.js.errors import APIError

from router.config import Settings
from router.core.message import Message
from router.core.outcome import Handler, Outcome
from tests.support.broker import Broker
from tests.support.service import a_router, settings_for
from tests.support.stories import (
    Inboxes,
    a_request,
    is_settled,
    read_dead_letters,
    wrap_decide_handler,
)
from tests.support.waiting import until

BEFORE, AFTER = 300, 100


async def test_after_a_kill_of_the_broker_it_pulls_again_and_nothing_acked_is_lost(
    nc: Client, broker: Broker, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Story 3: `kill -9` of nats-server under load; publishers hear PubAcks (confirm mode
    "stored"), so that acked has a meaning.
    """
    settings = settings_for(broker.url, prefix, reply__confirm="stored", decide__ack_wait_ms=1_000)
    inboxes = await Inboxes.under(nc, prefix)
    acked: set[int] = set()
    decided = _record(monkeypatch)
    over = asyncio.Event()
    async with a_router(settings) as router:
        load = asyncio.create_task(_load(nc, settings, inboxes, acked, over))
        await until(lambda: len(acked) >= BEFORE)
        broker.kill()
        known = len(acked)
        broker.start()
        await until(
            lambda: len(acked) >= known + AFTER and len(inboxes.heard) > known,
            what="answers after the restart",
        )
        over.set()
        await load

        # An answer on its way through the broker dies with it (heard at most once); the decision
        # may not.
        await until(lambda: acked <= decided, what="every acked request to be decided")
        await until(lambda: is_settled(nc, settings))
        assert all(len(set(answers)) == 1 for answers in inboxes.heard.values())
        assert await read_dead_letters(nc, settings) == []
        await until(lambda: all(check.ok for check in router.service.readiness().values()))


async def _load(
    nc: Client, settings: Settings, inboxes: Inboxes, acked: set[int], over: asyncio.Event
) -> None:
    """Publish without a pause; a message without a publish ack may be lost, so only the acked ones
    count.
    """
    js, n = nc.jetstream(timeout=0.5), 0
    while not over.is_set():
        n += 1
        headers = {"Nats-Msg-Id": f"m-{n}", "Reply-To": inboxes.of(n)}
        with contextlib.suppress(nats.errors.Error, APIError, OSError):
            publish_ack = await js.publish(settings.decide.subject, a_request(n), headers=headers)
            acked.add(publish_ack.seq)
        await asyncio.sleep(0)


def _record(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The stream sequences that the decide handler answers."""
    decided: set[int] = set()

    def around(handle: Any) -> Handler:
        def recording(message: Message) -> Outcome:
            decided.add(message.sequence)
            outcome: Outcome = handle(message)
            return outcome

        return recording

    wrap_decide_handler(monkeypatch, around)
    return decided
