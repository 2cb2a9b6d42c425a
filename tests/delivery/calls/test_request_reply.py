"""Calls on a real server: answered, refused, unanswered, unheard, too large, and over a connection
that is lost.
"""

import asyncio

import pytest
from nats.aio.msg import Msg

from router.core.errors import BrokerUnavailable, CallTimeout, ConnectionLost, NoResponders
from router.delivery.wire.calls.request_reply import RequestReplyClient, TooLarge
from router.delivery.wire.connection import Connection, open_head_of
from tests.support.broker import Broker
from tests.support.delivery import connected
from tests.support.waiting import until

HEAD = open_head_of({})


async def serve(
    connection: Connection, subject: str, headers: dict[str, str] | None = None
) -> None:
    """An echo; its answer has these headers."""

    async def answer(message: Msg) -> None:
        await connection.publish(message.reply, message.data, headers=headers)

    await connection.subscribe(subject, cb=answer)
    await connection.flush()


async def test_many_calls_at_once_each_get_their_own_answer(
    connection: Connection, prefix: str
) -> None:
    await serve(connection, prefix)
    calls = RequestReplyClient(connection)
    answers = await asyncio.gather(
        *(calls.call(prefix, str(number).encode(), HEAD, 5) for number in range(200))
    )
    assert [int(answered.data) for answered in answers] == list(range(200))
    assert all(answered.error_code is None for answered in answers)
    assert len(calls) == 0


async def test_headers_reach_the_service(connection: Connection, prefix: str) -> None:
    heard: asyncio.Queue[dict[str, str] | None] = asyncio.Queue()

    async def answer(message: Msg) -> None:
        heard.put_nowait(message.headers)
        await message.respond(b"")

    await connection.subscribe(prefix, cb=answer)
    calls = RequestReplyClient(connection)
    await calls.call(prefix, b"", calls.head({"trace_id": "t-1"}), 5)
    assert await heard.get() == {"trace_id": "t-1", "Router-Deadline-Ms": "5000"}


@pytest.mark.parametrize(("code", "read"), [("404", 404), ("503", 503), ("bad", 500), ("", 500)])
async def test_a_services_no_is_an_answer_with_its_code(
    connection: Connection, prefix: str, code: str, read: int
) -> None:
    await serve(
        connection, prefix, {"Nats-Service-Error-Code": code, "Nats-Service-Error": "not this one"}
    )
    answered = await RequestReplyClient(connection).call(prefix, b"", HEAD, 5)
    assert (answered.error_code, answered.error) == (read, "not this one")


async def test_without_a_listener_the_call_fails_at_once(
    connection: Connection, prefix: str
) -> None:
    with pytest.raises(NoResponders):
        await asyncio.wait_for(RequestReplyClient(connection).call(prefix, b"", HEAD, 120), 60)


async def test_silence_is_a_timeout_and_a_late_answer_is_dropped(
    connection: Connection, prefix: str
) -> None:
    asked: asyncio.Queue[str] = asyncio.Queue()
    await connection.subscribe_direct(prefix, lambda _s, inbox, _d, _h: asked.put_nowait(inbox))
    faults: list[BaseException] = []
    connection.on_fault = faults.append
    calls = RequestReplyClient(connection)
    with pytest.raises(CallTimeout):
        await calls.call(prefix, b"", HEAD, 0.02)
    connection.publish_nowait(await asked.get(), b"late")
    await connection.flush()
    assert (len(calls), faults) == (0, [])


async def test_a_call_that_is_cancelled_leaves_nothing_behind(
    connection: Connection, prefix: str
) -> None:
    await connection.subscribe_direct(prefix, lambda *_: None)
    calls = RequestReplyClient(connection)
    running = asyncio.ensure_future(calls.call(prefix, b"", HEAD, 30))
    await until(lambda: len(calls) == 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(calls) == 0


async def test_the_first_caller_being_cancelled_costs_the_others_nothing(
    connection: Connection, prefix: str
) -> None:
    await serve(connection, prefix)
    calls = RequestReplyClient(connection)
    first, second = (asyncio.ensure_future(calls.call(prefix, b"x", HEAD, 5)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).data == b"x"


async def test_what_the_server_would_end_the_connection_for_is_not_sent() -> None:
    with Broker(max_payload=1000) as broker:
        async with connected(broker.url) as connection:
            with pytest.raises(TooLarge):
                await RequestReplyClient(connection).call("any", b"x" * 1001, HEAD, 5)
            assert connection.is_connected


async def test_a_lost_connection_is_the_brokers_fault_and_calls_work_again_afterwards() -> None:
    with Broker() as broker:
        async with connected(broker.url) as ours:
            await ours.subscribe_direct("silent", lambda *_: None)
            await serve(ours, "echo")
            calls = RequestReplyClient(ours)
            running = asyncio.ensure_future(calls.call("silent", b"", HEAD, 10))
            await until(lambda: len(calls) == 1)
            broker.kill()
            await until(lambda: not ours.is_connected)
            with pytest.raises(ConnectionLost):
                await running
            with pytest.raises(BrokerUnavailable) as away:
                await calls.call("echo", b"", HEAD, 5)
            assert not isinstance(away.value, ConnectionLost)  # nothing was sent
            broker.start()
            await until(lambda: ours.is_connected)
            assert (await calls.call("echo", b"again", HEAD, 5)).data == b"again"


async def test_what_a_woken_task_publishes_goes_out_with_what_callbacks_did(
    connection: Connection, prefix: str, monkeypatch
) -> None:
    """One write for a chunk, not two: a write costs as much as a decision."""
    await serve(connection, prefix)
    calls = RequestReplyClient(connection)
    await calls.call(prefix, b"", HEAD, 5)
    (sid,) = (sid for sid, callback in connection.callbacks.items() if callback == calls._on_reply)
    written: list[bytes] = []
    write = connection._transport.writelines

    def on_reply(subject: bytes, reply: bytes, data: bytes, head: bytes | None) -> None:
        connection.publish_nowait(f"{prefix}.ack")
        calls._on_reply(subject, reply, data, head)

    monkeypatch.setitem(connection.callbacks, sid, on_reply)
    monkeypatch.setattr(
        connection._transport,
        "writelines",
        lambda pending: (written.append(b"".join(pending)), write(pending)),
    )
    await calls.call(prefix, b"", HEAD, 5)
    connection.publish_nowait(f"{prefix}.next")
    await connection.flush()
    assert any(b".ack" in chunk and b".next" in chunk for chunk in written)
