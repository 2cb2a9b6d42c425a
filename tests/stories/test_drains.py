"""Drains in a row: what a router had pulled and not begun goes back, and was no attempt."""

import asyncio
from typing import Any

import pytest
from nats.aio.client import Client

from router.core.message import Message
from router.core.outcome import Handler, Outcome
from tests.support.service import a_router, settings_for
from tests.support.stories import (
    Inboxes,
    has_attempt_records,
    is_settled,
    make_topology,
    read_dead_letters,
    wrap_decide_handler,
)
from tests.support.waiting import until

REQUESTS = 500
DRAINS = 3


async def test_drains_in_a_row_leave_no_dead_letter(
    nc: Client, nats_url: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Story 5: the deliveries of what waited rise above the attempts allowed, and nothing is given
    up.
    """
    deliveries: list[int] = []
    wrap_decide_handler(monkeypatch, lambda handle: _slow(handle, deliveries))
    settings = settings_for(nats_url, prefix, decide__slots=4)
    await make_topology(settings)
    inboxes = await Inboxes.under(nc, prefix)
    for n in range(REQUESTS):
        await inboxes.publish_named(nc, settings, n)
    # how many a life pulls, and so how many lives it takes, is chance
    while max(deliveries, default=0) <= settings.decide.max_attempts:
        handled = len(inboxes)
        assert handled < REQUESTS * 2 / 3
        async with a_router(settings):
            await until(lambda handled=handled: len(inboxes) > handled + 10)  # type: ignore[misc]
        assert await read_dead_letters(nc, settings) == []
        await until(
            lambda: has_attempt_records(nc, settings, 0),
            what="no attempt is recorded while no handler runs",
        )

    async with a_router(settings):
        await until(lambda: len(inboxes) >= REQUESTS)
        await until(lambda: is_settled(nc, settings))
        assert inboxes.counts == {inboxes.of(n): 1 for n in range(REQUESTS)}
        assert await read_dead_letters(nc, settings) == []


async def test_a_drain_amid_redeliveries_spends_no_attempt(
    nc: Client, nats_url: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After one drain the redelivered messages are handled one by one, each attempt recorded first;
    a second drain leaves no attempt without a handler that ran.
    """
    settings = settings_for(nats_url, prefix, decide__slots=4)
    await make_topology(settings)
    inboxes = await Inboxes.under(nc, prefix)
    for n in range(REQUESTS):
        await inboxes.publish_named(nc, settings, n)
    with monkeypatch.context() as slowly:
        wrap_decide_handler(slowly, lambda handle: _slow(handle, []))
        async with a_router(settings):
            await until(lambda: len(inboxes))
    for _ in range(DRAINS):
        known = len(inboxes)
        async with a_router(settings):
            await until(lambda known=known: len(inboxes) > known + 3)  # type: ignore[misc]
        assert len(inboxes) < REQUESTS
        await until(lambda: has_attempt_records(nc, settings, 0))


def _slow(handle: Any, deliveries: list[int]) -> Handler:
    """The same, a moment later, so that requests wait in the prefetch."""

    async def decide(message: Message) -> Outcome:
        await asyncio.sleep(0.005)
        deliveries.append(message.deliveries)
        outcome: Outcome = handle(message)
        return outcome

    return decide
