import asyncio

import pytest
from nats.aio.msg import Msg

from router.core.clock import steady
from router.core.errors import BrokerRefused, BrokerUnavailable, NoJetStream, NoLeader
from router.delivery.wire.api import ASK_AGAIN_S, CONSUMER_EXISTS, STREAM_NOT_FOUND, JetStream
from router.delivery.wire.publish_faults import TOO_LARGE_CODES
from tests.support.delivery import WorkStreams, connected


async def test_an_error_of_the_server_carries_its_number_and_status(place: WorkStreams) -> None:
    with pytest.raises(BrokerRefused) as refused:
        await place.jetstream.ask("STREAM.INFO.NO_SUCH_STREAM")
    assert (refused.value.err_code, refused.value.status) == (STREAM_NOT_FOUND, 404)


async def test_what_is_not_there_is_none(place: WorkStreams) -> None:
    api = place.jetstream
    assert await api.stream("NO_SUCH_STREAM") is None
    assert await api.consumer(place.stream, "no-such-durable") is None
    assert await api.consumer("NO_SUCH_STREAM", "no-such-durable") is None
    assert await api.message(place.stream, 1) is None
    assert await api.get_last("NO_SUCH_STREAM", "x") is None


async def test_a_stored_message_is_read_back_whole(place: WorkStreams) -> None:
    await place.connection.request(
        place.work, b"\x00\xff", headers={"Nats-Msg-Id": "1", "x": "ü"}, timeout=60
    )
    found = await place.jetstream.message(place.stream, 1)
    assert found is not None
    assert (found.subject, found.sequence, found.data) == (place.work, 1, b"\x00\xff")
    assert found.headers == {"Nats-Msg-Id": "1", "x": "ü"}


async def test_messages_are_found_by_subject(place: WorkStreams) -> None:
    for subject, data in ((place.effects, b"1"), (place.letters, b"2"), (place.effects, b"3")):
        await place.connection.request(subject, data, timeout=60)
    last, following = (
        await place.jetstream.get_last(place.out, place.effects),
        await place.jetstream.get_next(place.out, place.effects, 2),
    )
    assert last is not None
    assert following is not None
    assert (last.data, following.sequence) == (b"3", 3)
    assert await place.jetstream.get_next(place.out, place.letters, 3) is None


@pytest.mark.parametrize("headers", [{}, {"x": "a" * 70_000}], ids=["body", "headers"])
async def test_the_server_has_a_number_for_what_is_too_large_for_a_stream(
    place: WorkStreams, headers: dict[str, str]
) -> None:
    info = await place.jetstream.stream(place.out)
    assert info is not None
    await place.jetstream.ask(
        f"STREAM.UPDATE.{place.out}",
        {**info["config"], "max_msg_size": 1_000 if not headers else -1},
    )
    with pytest.raises(BrokerRefused) as refused:
        await place.jetstream.publish(place.effects, b"a" * 2_000, headers)
    assert refused.value.err_code in TOO_LARGE_CODES


async def test_a_durable_that_differs_is_told_by_number(place: WorkStreams) -> None:
    config = {"durable_name": place.durable, "ack_policy": "explicit", "ack_wait": 99_000_000_000}
    with pytest.raises(BrokerRefused) as refused:
        await place.jetstream.ask(
            f"CONSUMER.CREATE.{place.stream}.{place.durable}",
            {"stream_name": place.stream, "config": config, "action": "create"},
        )
    assert refused.value.err_code == CONSUMER_EXISTS


async def test_silence_is_unavailable(place: WorkStreams) -> None:
    await place.connection.subscribe_direct("$JS.mute.API.INFO", lambda *_: None)
    with pytest.raises(NoLeader, match=r"no answer on \S+ within 0\.05 s"):
        await JetStream(place.connection, domain="mute", timeout_s=0.05).account()


async def test_a_domain_that_no_server_serves_is_named_with_its_setting_and_what_else_may_be_missing(
    place: WorkStreams,
) -> None:
    """Behind a leaf node that has not joined its hub, JetStream runs, and the connection is
    missing.
    """
    with pytest.raises(
        NoJetStream, match=r"\$JS\.elsewhere\.API is asked: nats\.js_domain.* leaf node .*/leafz"
    ):
        await JetStream(place.connection, domain="elsewhere").account()


async def test_an_answer_that_is_no_json_is_unavailable(nats_url: str) -> None:
    async def answer(asked: Msg) -> None:
        await asked.respond(b"<html>")

    async with connected(nats_url) as connection:
        await connection.subscribe("$JS.odd.API.INFO", cb=answer)
        with pytest.raises(BrokerUnavailable, match="not JSON"):
            await JetStream(connection, domain="odd").account()


async def test_an_info_without_an_answer_is_asked_for_again_before_the_timeout(
    place: WorkStreams,
) -> None:
    """A request that came while there was no leader is never answered."""
    asked: list[str] = []

    async def answer_the_second(message: Msg) -> None:
        asked.append(message.reply)
        if len(asked) >= 2:
            await message.respond(b'{"config": {}}')

    await place.connection.subscribe("$JS.elected.API.STREAM.INFO.S", cb=answer_the_second)
    jetstream = JetStream(place.connection, "elected", timeout_s=60.0)
    began = steady()
    assert await asyncio.wait_for(jetstream.stream("S"), 30) == {"config": {}}
    assert 2 <= len(asked) < 2 + (steady() - began) / ASK_AGAIN_S


async def test_without_any_answer_an_info_ends_with_the_timeout(place: WorkStreams) -> None:
    await place.connection.subscribe("$JS.silent.API.STREAM.INFO.S", cb=_ignore)
    with pytest.raises(NoLeader):
        await JetStream(place.connection, "silent", timeout_s=0.2).stream("S")


async def _ignore(_: Msg) -> None: ...
