"""Dead letters cannot be stored: what needs one waits and says so, nothing is spent, and all ends
well once they can be.

A stream that is gone or full holds back its own messages.
"""

import asyncio
import json

from nats.aio.client import Client

from router.config import Settings
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import (
    SILENCE_S,
    Inboxes,
    has_attempt_records,
    is_ready,
    is_settled,
    make_topology,
    read_acks,
    read_attempt_records,
    read_dead_letters,
    read_metric,
    read_page,
)
from tests.support.waiting import until

ACK_WAIT_MS = 6_000  # more than a busy machine stands still for
KEPT_ALIVE = 4  # signals of a message: three come in an ack wait
BAD = b"not a request"


def _settings(nats_url: str, prefix: str, **more: object) -> Settings:
    return settings_for(
        nats_url,
        prefix,
        decide__ack_wait_ms=ACK_WAIT_MS,
        effects__publish_timeout_ms=300,
        effects__retry_ms=50,
        **more,
    )


async def test_without_their_stream_what_failed_waits_and_the_rest_goes_on(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Story 6, the stream is gone, and the router makes none again."""
    settings = _settings(nats_url, prefix, topology="check")
    await make_topology(settings)
    inboxes = await Inboxes.under(nc, prefix)
    async with a_router(settings) as router:
        await inboxes.publish(nc, settings, "before")
        await until(lambda: inboxes.answers("before"))
        await nc.jsm().delete_stream(settings.streams.dlq.name)
        await inboxes.publish(nc, settings, "bad", BAD)
        await until(lambda: _waits(router))
        await inboxes.publish(nc, settings, "good")
        await until(lambda: inboxes.answers("good"))
        await _nothing_happens(nc, settings, router, inboxes, heard={"before", "good"})

        await make_topology(settings)
        await _all_ends_well(nc, settings, router)
        assert [letter["msg_id"] for letter in await read_dead_letters(nc, settings)] == ["m-bad"]
        await _each_is_answered_once(inboxes, good={"before", "good"}, bad={"bad"})


async def test_with_a_full_stream_what_failed_waits_and_the_rest_goes_on(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Story 6, the stream is full; nothing is doubled in it in the end."""
    settings = _settings(nats_url, prefix, streams__dlq__max_bytes=4_000)
    inboxes = await Inboxes.under(nc, prefix)
    bad = [f"bad-{n}" for n in range(8)]
    async with a_router(settings) as router:
        for name in bad:
            await inboxes.publish(nc, settings, name, BAD + name.encode())
        await until(lambda: _waits(router))
        await inboxes.publish(nc, settings, "good")
        await until(lambda: inboxes.answers("good"))
        fitted = {
            letter["msg_id"].removeprefix("m-") for letter in await read_dead_letters(nc, settings)
        }
        assert 0 < len(fitted) < len(bad)
        await _nothing_happens(nc, settings, router, inboxes, heard={"good", *fitted})

        await make_topology(_settings(nats_url, prefix, streams__dlq__max_bytes=1_000_000))
        await _all_ends_well(nc, settings, router)
        assert sorted(letter["msg_id"] for letter in await read_dead_letters(nc, settings)) == [
            f"m-{name}" for name in bad
        ]
        await _each_is_answered_once(inboxes, good={"good"}, bad=set(bad))


async def _is_paused(router: Running) -> bool:
    return await read_metric(router.ready.http, "router_consumer_paused") == 1


async def _waits(router: Running) -> bool:
    return await read_metric(router.ready.http, "router_storage_waiting") > 0


async def _nothing_happens(
    nc: Client, settings: Settings, router: Running, inboxes: Inboxes, heard: set[str]
) -> None:
    """503 with the cause; what waits is kept in progress, and no request is answered, no message
    acked or counted as an attempt.
    """
    status, text = await read_page(router.ready.http, "/readyz")
    check = json.loads(text)["checks"][settings.decide.durable]
    assert (status, check["ok"]) == (503, False)
    assert f"{settings.decide.subject}.dlq cannot be stored" in check["detail"]
    jsm, names = nc.jsm(), (settings.streams.decide.name, settings.decide.durable)
    before = await jsm.consumer_info(*names)
    assert before.num_ack_pending > 0
    assert await read_acks(nc, *names, messages=before.num_ack_pending, signals=KEPT_ALIVE) == {
        b"+WPI"
    }
    after = await jsm.consumer_info(*names)
    assert (
        after.num_ack_pending - before.num_ack_pending
        == after.delivered.stream_seq - before.delivered.stream_seq
    ), "none is acked"
    assert after.ack_floor.stream_seq == before.ack_floor.stream_seq
    assert await read_attempt_records(nc, settings) == []
    assert inboxes.subjects == {inboxes.of(name) for name in heard}
    assert await _is_paused(router) or await _waits(router)


async def _all_ends_well(nc: Client, settings: Settings, router: Running) -> None:
    await until(lambda: is_ready(router.ready.http))
    await until(lambda: is_settled(nc, settings))
    assert not await _is_paused(router)
    assert not await _waits(router)
    await until(lambda: has_attempt_records(nc, settings, 0))


async def _each_is_answered_once(inboxes: Inboxes, *, good: set[str], bad: set[str]) -> None:
    await until(lambda: len(inboxes) >= len(good) + len(bad))
    await asyncio.sleep(SILENCE_S)
    assert inboxes.counts == {inboxes.of(name): 1 for name in good | bad}
    assert all(b'"ok":true' in inboxes.answers(name)[0] for name in good)
    assert all(b'"invalid_request"' in inboxes.answers(name)[0] for name in bad)
