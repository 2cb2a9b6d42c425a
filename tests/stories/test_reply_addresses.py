"""Who asks is answered, with the decision and nothing else; an address that a client chose is never
a weapon.
"""

import asyncio
import json

import pytest
from nats.aio.client import Client

from router.config import Settings
from tests.support.service import a_router, settings_for
from tests.support.stories import (
    SILENCE_S,
    Inboxes,
    MessageRecorder,
    a_request,
    ask,
    is_settled,
    read_dead_letters,
    read_last_sequence,
    read_metric,
)
from tests.support.waiting import until

# With these a stream without acknowledgements refuses a message and says nothing.
CONTROL = {
    "Nats-TTL": "60s",
    "Nats-Rollup": "all",
    "Nats-Expected-Last-Sequence": "4711",
    "Nats-Batch-Id": "b",
    "Nats-Schedule": "@at 2035-01-01T00:00:00Z",
    "Nats-Incr": "1",
    "Nats-Schedule-Next": "purge",
    "Nats-Scheduler": "s",
}
# With these it stores the message; with the first the server writes a trace of it to that subject
# besides.
STORED = {
    "Nats-Trace-Dest": "traced",
    "Nats-Trace-Hop": "1",
    "Nats-Trace-Origin-Account": "A",
    "Nats-Counter-Sources": "{}",
    "Nats-Marker-Reason": "Purge",
    "Nats-Required-Api-Level": "99",
}


@pytest.mark.parametrize("headers", [None, {"Nats-Msg-Id": "n-1"}], ids=["plain", "with-an-id"])
async def test_a_plain_request_hears_the_decision_and_only_it(
    nc: Client, settings: Settings, headers: dict[str, str] | None
) -> None:
    """Story 9: the first answer of `nc.request` is the decision, never a PubAck; there is no second
    one.
    """
    everything = await MessageRecorder.on(nc, "_INBOX.>")
    async with a_router(settings):
        assert set(await ask(nc, settings, a_request("first"), headers)) == {
            "ok",
            "decision",
            "context",
        }

        inbox = nc.new_inbox()
        await nc.publish(settings.decide.subject, a_request("second"), reply=inbox)
        await until(lambda: inbox in everything.heard)
        await asyncio.sleep(SILENCE_S)
        assert everything.counts[inbox] == 1
        assert b'"seq"' not in b"".join(everything.heard[inbox])


@pytest.mark.parametrize("place", ["reply", "header"])
async def test_an_address_outside_the_prefixes_is_never_published_to(
    nc: Client, settings: Settings, place: str
) -> None:
    """Story 9: JetStream's API, the decide subject itself, our own streams' subjects, anything that
    is no inbox.
    """
    decide, dlq = settings.decide.subject, settings.streams.dlq.name
    addresses = [
        f"$JS.API.STREAM.PURGE.{dlq}",
        f"$JS.API.STREAM.DELETE.{dlq}",
        decide,
        f"{decide}.dlq",
        "orders.new",
        "_INBOX",
        "INBOX.x",
    ]
    async with a_router(settings) as router:
        await ask(nc, settings, b"a letter to be lost")
        await until(lambda: is_settled(nc, settings))
        watched = [await MessageRecorder.on(nc, address) for address in addresses]
        replies = await MessageRecorder.on(nc, f"{decide}.reply")
        for n, address in enumerate(addresses):
            await _publish(nc, decide, a_request(n), address, place)
        await until(
            lambda: len(replies) == len(addresses), what="every answer on the reply subject instead"
        )
        await asyncio.sleep(SILENCE_S)

        assert [
            data
            for ears in watched
            for heard in ears.heard.values()
            for data in heard
            if b'"ok"' in data
        ] == []
        assert len(await read_dead_letters(nc, settings)) == 1
        assert await read_last_sequence(nc, settings) == 1 + len(addresses)
        assert await read_metric(router.ready.http, "router_reply_refused_total") >= len(addresses)
        answered = {
            json.loads(data)["context"]["request_id"] for data in replies.heard[f"{decide}.reply"]
        }
        assert answered == {f"r-{n}" for n in range(len(addresses))}


async def test_a_wildcard_is_no_address(nc: Client, settings: Settings) -> None:
    """`_INBOX.>` begins as an inbox does, and would reach the inbox of every client."""
    inboxes = await MessageRecorder.on(nc, "_INBOX.>")
    replies = await MessageRecorder.on(nc, f"{settings.decide.subject}.reply")
    async with a_router(settings):
        for n, address in enumerate(
            ["_INBOX.>", "_INBOX.*", "_INBOX.a.*.b", "_INBOX.", "_INBOX..x", "_INBOX.a b"]
        ):
            await _publish(nc, settings.decide.subject, a_request(n), address, "header")
        await until(lambda: len(replies) == 6)
        await asyncio.sleep(SILENCE_S)
        assert [
            data for heard in inboxes.heard.values() for data in heard if b'"decision"' in data
        ] == []


async def test_a_request_that_the_stream_refuses_in_silence_is_answered(
    nc: Client, settings: Settings
) -> None:
    """Story 9: `Nats-TTL`, `Nats-Rollup` and their kind, and those that the stream takes; the next
    request is served as usual.
    """
    inboxes = await Inboxes.under(nc, "control")
    replies = await MessageRecorder.on(nc, f"{settings.decide.subject}.reply")
    async with a_router(settings):
        for name, value in (CONTROL | STORED).items():
            headers = {name: value, "Nats-Msg-Id": f"m-{name}"}
            await nc.publish(
                settings.decide.subject, a_request(name), reply=inboxes.of(name), headers=headers
            )
        await until(lambda: len(inboxes) >= len(CONTROL | STORED))
        assert (await ask(nc, settings, a_request("next")))["ok"] is True
        await asyncio.sleep(SILENCE_S)

        answers = {
            name: [json.loads(data)["error"]["code"] for data in inboxes.answers(name)]
            for name in CONTROL | STORED
        }
        assert answers == {name: ["invalid_request"] for name in CONTROL | STORED}
        assert replies.counts == {}


async def _publish(nc: Client, subject: str, body: bytes, address: str, place: str) -> None:
    if place == "reply":
        await nc.publish(subject, body, reply=address)
    else:
        await nc.publish(subject, body, headers={"Reply-To": address})


async def test_headers_above_what_the_stream_takes_are_refused_aloud(
    nc: Client, settings: Settings
) -> None:
    """Story 1: oversized headers, which a stream without acknowledgements refuses in silence."""
    async with a_router(settings):
        for headers in ({"Custom": "x" * 70_000}, {"Nats-Msg-Id": "y" * 70_000}):
            answer = await ask(nc, settings, a_request("large"), headers)
            assert answer["error"]["code"] == "invalid_request"
        assert (await ask(nc, settings, a_request("next"), {"Custom": "x" * 60_000}))["ok"]


async def test_a_publisher_with_its_own_expectations_is_served_in_mode_stored(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Story 9: control headers are a publisher's right where publishing is acknowledged."""
    settings = settings_for(nats_url, prefix, reply__confirm="stored")
    replies = await MessageRecorder.on(nc, f"{settings.decide.subject}.reply")
    async with a_router(settings):
        await nc.jetstream().publish(
            settings.decide.subject, a_request("stored"), stream=settings.streams.decide.name
        )
        await until(lambda: sum(replies.counts.values()))
        assert b'"ok":true' in b"".join(b"".join(heard) for heard in replies.heard.values())
        assert await read_dead_letters(nc, settings) == []
