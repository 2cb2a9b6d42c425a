"""A handler that fails: it is asked again as often as allowed, with pauses, and then there is a
dead letter.

The whole router, with another decide handler; everything around it is real.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from nats.aio.client import Client

from router.core.message import Message
from router.core.outcome import Handler, Outcome
from tests.support.service import a_router, settings_for
from tests.support.stories import (
    SILENCE_S,
    Inboxes,
    MessageRecorder,
    a_request,
    ask,
    is_settled,
    read_attempt_records,
    read_dead_letters,
    wrap_decide_handler,
)
from tests.support.waiting import until


async def test_a_handler_that_always_fails_is_begun_three_times(
    nc: Client, nats_url: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Story 4, with the real values: about 1 and 2 s apart, then one dead letter, and the requester
    hears `internal` once.
    """
    begun: list[float] = []

    def failing(message: Message) -> Outcome:
        begun.append(asyncio.get_running_loop().time())
        raise RuntimeError("whatever it is asked")

    wrap_decide_handler(monkeypatch, lambda _: failing)
    settings = settings_for(nats_url, prefix)
    inboxes = await Inboxes.under(nc, prefix)
    acks = await MessageRecorder.on(
        nc, f"$JS.ACK.{settings.streams.decide.name}.{settings.decide.durable}.>"
    )
    async with a_router(settings):
        await inboxes.publish(nc, settings, "doomed")
        await until(lambda: len(inboxes))
        await asyncio.sleep(SILENCE_S)

        assert len(begun) == 3
        first, second = begun[1] - begun[0], begun[2] - begun[1]
        assert first >= 1.0  # a busy machine may be late; early it must never be
        assert second >= 2.0
        assert _select_naks(acks.heard.values()) == [
            b'-NAK {"delay": 1000000000}',
            b'-NAK {"delay": 2000000000}',
        ]
        await until(lambda: is_settled(nc, settings))
        (letter,) = await read_dead_letters(nc, settings)
        assert letter["reason"] == "maxdeliver_exhausted"
        assert letter["last_error"]["code"] == "internal"
        assert (letter["source"]["attempts"], letter["source"]["deliveries"]) == (3, 3)
        (answer,) = inboxes.answers("doomed")
        assert b'"code":"internal"' in answer
        assert b'"request_id":"r-doomed"' in answer
        # it stays: a redelivery may be on its way to another router
        assert len(await read_attempt_records(nc, settings)) == 1


async def test_a_handler_that_recovers_leaves_no_dead_letter(
    nc: Client, nats_url: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Story 4, the other side: the third of three allowed attempts counts like the first."""
    failures = iter([True, True, False])

    def recovering(handle: Any) -> Handler:
        def fail_twice(message: Message) -> Outcome:
            if next(failures):
                raise RuntimeError("not yet")
            outcome: Outcome = handle(message)
            return outcome

        return fail_twice

    wrap_decide_handler(monkeypatch, recovering)
    settings = settings_for(nats_url, prefix, decide__backoff_ms="20,40")
    async with a_router(settings):
        assert (await ask(nc, settings, a_request("patient")))["ok"] is True
        await until(lambda: is_settled(nc, settings))
        assert await read_dead_letters(nc, settings) == []


def _select_naks(acks: Iterable[list[bytes]]) -> list[bytes]:
    """What the server was told of each failed attempt: exactly how long to wait, however late it
    then is.
    """
    return [one for heard in acks for one in heard if one.startswith(b"-NAK")]
