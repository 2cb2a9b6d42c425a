"""A publisher gets its PubAck, in a stream that acknowledges nothing itself; the decision goes to
the reply subject.
"""

import json

import pytest
from nats.aio.client import Client
from nats.js.errors import APIError

from router.config import Settings
from tests.support.service import a_router
from tests.support.stories import (
    Inboxes,
    MessageRecorder,
    a_request,
    ask,
    is_settled,
    read_dead_letters,
    read_last_sequence,
)
from tests.support.waiting import until


@pytest.mark.parametrize("msg_id", [None, "m"], ids=["without-an-id", "with-an-id"])
async def test_a_publisher_that_expects_the_stream_gets_its_pub_ack(
    nc: Client, settings: Settings, msg_id: str | None
) -> None:
    """Of two routers the one that decides the request knows its sequence, and both hear who
    published.
    """
    stream = settings.streams.decide.name
    replies = await MessageRecorder.on(nc, f"{settings.decide.subject}.reply")
    async with a_router(settings), a_router(settings):
        for number in range(1, 4):
            headers = {"Nats-Msg-Id": f"{msg_id}-{number}"} if msg_id else None
            ack = await nc.jetstream().publish(
                settings.decide.subject, a_request(number), stream=stream, headers=headers
            )
            assert (ack.stream, ack.seq) == (stream, number)
        await until(lambda: len(replies) == 3)
        assert {json.loads(data)["ok"] for heard in replies.heard.values() for data in heard} == {
            True
        }


async def test_a_publisher_may_ask_for_it_by_header_and_name_another_inbox_for_the_decision(
    nc: Client, settings: Settings, prefix: str
) -> None:
    inboxes = await Inboxes.under(nc, prefix)
    async with a_router(settings):
        headers = {"Router-Confirm": "stored", "Reply-To": inboxes.of("decision")}
        ack = await nc.jetstream().publish(settings.decide.subject, a_request(1), headers=headers)
        assert ack.seq == 1
        await until(lambda: inboxes.answers("decision"))
        assert json.loads(inboxes.answers("decision")[0])["ok"] is True
        assert set(await ask(nc, settings, a_request(1))) == {"ok", "decision", "context"}, (
            "the same body, asked plainly"
        )
        await until(lambda: is_settled(nc, settings))
        assert await read_dead_letters(nc, settings) == []


async def test_a_publisher_that_expects_another_stream_is_told_as_jetstream_tells_it(
    nc: Client, settings: Settings
) -> None:
    async with a_router(settings):
        with pytest.raises(APIError) as refused:
            await nc.jetstream().publish(settings.decide.subject, a_request(1), stream="ANOTHER")
        assert (refused.value.code, refused.value.err_code) == (400, 10060)
        assert await read_last_sequence(nc, settings) == 0
