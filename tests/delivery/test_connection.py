"""The connection on a real server: the poisons of docs/explanation/durability.md#reader over a raw
socket, and the fast way in and out.
"""

import asyncio

import pytest

from router.core.errors import BrokerUnavailable
from router.delivery.wire import connection as wire
from router.delivery.wire.connection import BEHIND_BYTES, Connection, head_of
from router.delivery.wire.first_connection import connect
from router.delivery.wire.frames import READ_BYTES, Headers, PlainFrames, parse_head
from tests.support.broker import Broker
from tests.support.delivery import CallRecorder, connected
from tests.support.patient_client import connect_patiently
from tests.support.waiting import until

GOOD = 20
HEADS = [
    b"N",
    b"NA",
    b"NAT",
    b"NATS",
    b"NATS/",
    b"NATS/1",
    b"NATS/1.",
    b"NATS/1.0",
    b"\x00\x01\x02",
    b"NATS/1.0 \xff\xfe\r\n\r\n",
    b"\xff" * 40,
]


async def send_raw(broker: Broker, *frames: bytes) -> None:
    """Speak the protocol without a client; returns when the server has taken everything."""
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    await reader.readline()
    writer.write(b'CONNECT {"verbose":false,"headers":true}\r\n' + b"".join(frames) + b"PING\r\n")
    async with asyncio.timeout(30):
        while not (await reader.readline()).startswith(b"PONG"):
            pass
    writer.close()


def poisons(subject: str) -> list[bytes]:
    name = subject.encode()
    frames = [
        b"HPUB %s %d %d\r\n%s\r\n" % (name, len(head), len(head) + 1, head + b"!") for head in HEADS
    ]
    frames.append(b"PUB %s _INBOX.\xff\xfe 1\r\n!\r\n" % name)
    frames.append(b"HPUB %s _INBOX.\xff\xfe 12 13\r\nNATS/1.0\r\n\r\n!\r\n" % name)
    return frames


def good(subject: str) -> list[bytes]:
    return [b"PUB %s 2\r\n%02d\r\n" % (subject.encode(), number) for number in range(GOOD)]


GOOD_DATA = [b"%02d" % number for number in range(GOOD)]

# -- the poisons -----------------------------------------------------------------------------------


async def test_what_is_taken_out_of_a_chunk_is_not_heard(
    broker: Broker, connection: Connection, prefix: str
) -> None:
    ear = CallRecorder()

    def take(frames: PlainFrames, chunk: bytes, at: int) -> int:
        for _, data, _, after in frames.read(chunk, at):
            if data != b"01":
                break
            at = after
        return at

    await connection.subscribe_direct(prefix, ear, take=take)
    await connection.flush()
    await send_raw(broker, *good(prefix))
    await until(lambda: len(ear.heard) == GOOD - 1)
    assert ear.data == [data for data in GOOD_DATA if data != b"01"]


async def test_who_attends_hears_every_poison_and_the_good_messages_behind_them(
    broker: Broker, connection: Connection, prefix: str
) -> None:
    ear = CallRecorder()
    await connection.subscribe_direct(prefix, ear)
    await connection.flush()
    await send_raw(broker, *poisons(prefix), *good(prefix))
    await until(lambda: len(ear.heard) == len(HEADS) + 2 + GOOD)
    assert ear.data == [b"!"] * (len(HEADS) + 2) + GOOD_DATA
    assert {reply for _, reply, _, _ in ear.heard} == {""}


async def test_an_ordinary_subscription_lives_through_the_poisons_too(
    broker: Broker, connection: Connection, prefix: str
) -> None:
    ear = CallRecorder()
    await connection.subscribe(prefix, cb=ear.on_message)
    await connection.flush()
    await send_raw(broker, *poisons(prefix), *good(prefix))
    await until(lambda: ear.data[-GOOD:] == GOOD_DATA)


async def test_a_subject_that_is_not_utf8_is_heard(
    broker: Broker, connection: Connection, prefix: str
) -> None:
    ear = CallRecorder()
    await connection.subscribe_direct(f"{prefix}.>", ear)
    await connection.flush()
    await send_raw(broker, b"PUB %s.\xff 1\r\n!\r\n" % prefix.encode(), *good(f"{prefix}.a"))
    await until(lambda: len(ear.heard) == 1 + GOOD)
    assert ear.heard[0][0] == f"{prefix}.\ufffd"


@pytest.mark.parametrize(
    "poison", [b"HPUB s 3 4\r\n\x00\x01\x02!\r\n", b"PUB s _INBOX.\xff\xfe 1\r\n!\r\n"]
)
async def test_the_control_nats_pys_own_reader_dies_of_one(broker: Broker, poison: bytes) -> None:
    ear = CallRecorder()
    plain = await connect_patiently(broker.url)
    try:
        await plain.subscribe("s", cb=ear.on_message)
        await plain.flush()
        await send_raw(broker, poison, *good("s"))
        await until(lambda: plain._reading_task is None or plain._reading_task.done())
        assert (plain.is_connected, ear.data) == (True, [])
    finally:
        await asyncio.wait([asyncio.create_task(plain.close())], timeout=1)


# -- in --------------------------------------------------------------------------------------------


async def test_headers_that_a_listener_heard_are_parsed_once_and_kept_within_a_bound(
    connection: Connection, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stored copy of a request comes with the header block of the copy that was heard."""
    parsed: list[bytes] = []
    monkeypatch.setattr(wire, "MAX_HEADS", 3)
    monkeypatch.setattr(wire, "parse_head", lambda head: parsed.append(head) or parse_head(head))
    heard: list[Headers | None] = []
    pulled: list[Headers | None] = []
    await connection.listen_direct(f"{prefix}.asked", lambda *message: heard.append(message[3]))
    await connection.subscribe_direct(
        f"{prefix}.stored", lambda *message: pulled.append(message[3])
    )
    blocks = [{"Nats-Msg-Id": str(number)} for number in range(3)] + [
        {"Nats-Msg-Id": "x" * wire.MAX_HEAD_BYTES}
    ]
    for headers in blocks:
        connection.publish_nowait(f"{prefix}.asked", b"", "", head_of(headers))
    for headers in blocks * 2:  # the second time it is another message
        connection.publish_nowait(f"{prefix}.stored", b"", "", head_of(headers))
    await until(lambda: len(pulled) == 8)

    assert (heard, pulled) == (blocks, blocks * 2)
    assert [parsed.count(head_of(headers)) for headers in blocks] == [2, 2, 2, 3]
    for number in range(10):
        connection.publish_nowait(
            f"{prefix}.asked", b"", "", head_of({"Nats-Msg-Id": f"more {number}"})
        )
    await until(lambda: len(heard) == 14)
    assert len(connection._heads) <= 3


async def test_a_listener_that_raises_is_told_and_hears_on(
    broker: Broker, connection: Connection, prefix: str
) -> None:
    ear, faults = CallRecorder(), []
    connection.on_fault = faults.append

    def hear(subject: str, reply: str, data: bytes, headers: Headers | None) -> None:
        ear(subject, reply, data, headers)
        if data == b"00":
            raise ValueError("mine")

    await connection.subscribe_direct(prefix, hear)
    await connection.flush()
    await send_raw(broker, *good(prefix))
    await until(lambda: len(ear.heard) == GOOD)
    assert [type(fault) for fault in faults] == [ValueError]


async def test_a_listener_that_cannot_decode_what_it_heard_is_called_once(
    broker: Broker, connection: Connection, prefix: str
) -> None:
    ear, faults = CallRecorder(), []
    connection.on_fault = faults.append

    def hear(subject: str, reply: str, data: bytes, headers: Headers | None) -> None:
        ear(subject, reply, data, headers)
        data.decode()

    await connection.subscribe_direct(prefix, hear)
    await connection.flush()
    await send_raw(broker, b"PUB %s 1\r\n\xff\r\n" % prefix.encode(), *good(prefix))
    await until(lambda: ear.data[-1:] == [b"19"])
    assert ([type(fault) for fault in faults], ear.data.count(b"\xff")) == ([UnicodeDecodeError], 1)


async def test_who_has_left_hears_no_more(
    broker: Broker, connection: Connection, prefix: str
) -> None:
    ear = CallRecorder()
    sid = await connection.subscribe_direct(prefix, ear)
    await connection.flush()
    await send_raw(broker, *good(prefix))
    await connection.unsubscribe(sid)
    assert ear.data == GOOD_DATA  # what was sent before is heard when `leave` returns
    await send_raw(broker, *good(prefix))
    await connection.flush()
    assert (len(ear.heard), connection.callbacks, sid in connection._subs) == (GOOD, {}, False)


async def test_who_is_cancelled_while_leaving_leaves_nothing_behind(
    connection: Connection, prefix: str
) -> None:
    sid = await connection.subscribe_direct(prefix, CallRecorder())
    leaving = asyncio.create_task(connection.unsubscribe(sid))
    await asyncio.sleep(0)  # it waits for the server's word
    leaving.cancel()
    await asyncio.wait({leaving})
    assert (leaving.cancelled(), connection.callbacks, sid in connection._subs) == (True, {}, False)


async def test_a_large_payload_is_heard_whole(connection: Connection, prefix: str) -> None:
    ear = CallRecorder()
    await connection.subscribe_direct(prefix, ear)
    connection.publish_nowait(prefix, b"x" * 3_000_000)
    connection.publish_nowait(prefix, b"small")
    await until(lambda: len(ear.heard) == 2)
    assert [len(data) for data in ear.data] == [3_000_000, 5]


async def test_no_read_holds_the_loop_for_more_than_its_share(
    connection: Connection, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ear, sizes, feed = CallRecorder(), list[int](), connection._wire.feed

    def note_size(data: bytes) -> bytes:
        sizes.append(len(data))
        return feed(data)

    monkeypatch.setattr(connection._wire, "feed", note_size)
    await connection.subscribe_direct(prefix, ear)
    await connection.flush()
    for _ in range(8):
        connection.publish_nowait(prefix, b"x" * 500_000)
    await until(lambda: len(ear.heard) == 8)
    assert sum(sizes) > 8 * 500_000
    assert max(sizes) <= READ_BYTES


async def test_it_is_behind_after_several_full_reads_and_no_longer_after_one_that_is_not(
    connection: Connection, prefix: str
) -> None:
    sid = await connection.subscribe_direct(prefix, CallRecorder())
    await connection.flush()

    def read(size: int) -> bool:
        head = b"MSG %s %d %d\r\n" % (prefix.encode(), sid, size - 100)
        frame = head + b"x" * (size - 100) + b"\r\n"
        assert connection._dispatch_chunk(frame) == b""
        return connection.is_behind

    full = READ_BYTES + 200
    assert [read(full) for _ in range(BEHIND_BYTES // READ_BYTES)] == [False] * 3 + [True]
    assert [read(full), read(1_000), read(full)] == [True, False, False]


async def test_a_request_is_answered_over_the_same_connection(
    connection: Connection, prefix: str
) -> None:
    await connection.subscribe_direct(
        prefix,
        lambda _subject, reply, data, _headers: connection.publish_nowait(reply, data + b"!"),
    )
    assert (await connection.request(prefix, b"hello", timeout=60)).data == b"hello!"


# -- out -------------------------------------------------------------------------------------------


async def test_what_is_posted_arrives_in_order_with_reply_and_headers(
    connection: Connection, prefix: str
) -> None:
    ear = CallRecorder()
    await connection.subscribe_direct(prefix, ear)
    connection.publish_nowait(prefix, b"1")
    connection.publish_nowait(prefix, b"2", "_INBOX.a", b"NATS/1.0\r\nx: y\r\n\r\n")
    connection.publish_nowait(prefix)
    await until(lambda: len(ear.heard) == 3)
    assert ear.heard == [
        (prefix, "", b"1", None),
        (prefix, "_INBOX.a", b"2", {"x": "y"}),
        (prefix, "", b"", None),
    ]


async def test_attending_survives_a_reconnect_and_so_does_what_was_posted_meanwhile(
    prefix: str,
) -> None:
    broker = Broker().start()
    back = asyncio.Event()

    async def on_back() -> None:
        back.set()

    connection = await connect(
        {"servers": [broker.url], "reconnect_time_wait": 0.01}, on_back=on_back
    )
    try:
        ear = CallRecorder()
        await connection.subscribe_direct(prefix, ear)
        await connection.flush()
        broker.kill()
        await until(lambda: not connection.is_connected)
        connection.publish_nowait(prefix, b"meanwhile")
        broker.start()
        async with asyncio.timeout(30):
            await back.wait()
        connection.publish_nowait(prefix, b"after")
        await until(lambda: b"after" in ear.data)
        assert ear.data == [b"meanwhile", b"after"]
    finally:
        await connection.close()
        broker.remove()


async def test_a_server_that_is_not_there_is_told_not_waited_for() -> None:
    with pytest.raises(BrokerUnavailable, match="no NATS server answers"):
        await connect({"servers": ["nats://127.0.0.1:1"]}, timeout_s=0.2)


async def test_a_login_in_an_address_is_not_told() -> None:
    with pytest.raises(BrokerUnavailable) as told:
        await connect(
            {"servers": ["nats://me:hunter2@127.0.0.1:1", "nats://127.0.0.1:2"]}, timeout_s=0.1
        )
    assert "nats://***@127.0.0.1:1, nats://127.0.0.1:2" in str(told.value)
    assert "hunter2" not in str(told.value)


async def test_an_error_that_ends_the_connection_is_followed_by_a_new_one(
    connection: Connection, prefix: str
) -> None:
    ear = CallRecorder()
    await connection.subscribe_direct(prefix, ear)
    life = connection.reconnect_count
    await connection._process_err("'user authentication expired'")
    await until(lambda: connection.is_connected and connection.reconnect_count > life)
    connection.publish_nowait(prefix, b"still here")
    await until(lambda: ear.heard)


async def test_a_permission_that_is_missing_costs_no_connection(connection: Connection) -> None:
    life = connection.reconnect_count
    await connection._process_err("'permissions violation for publish to \"x\"'")
    assert (connection.is_connected, connection.reconnect_count) == (True, life)


@pytest.mark.parametrize(
    ("ask", "answered"), [("request", "_request_sub_callback"), ("flush", "_process_pong")]
)
async def test_a_cancellation_that_comes_with_the_answer_is_not_lost(
    connection: Connection, prefix: str, monkeypatch: pytest.MonkeyPatch, ask: str, answered: str
) -> None:
    """On Python 3.11 `asyncio.wait_for`, in which nats-py waits, forgets one that comes together
    with the answer.
    """
    await connection.subscribe_direct(
        prefix, lambda _, reply, data, __: connection.publish_nowait(reply, data)
    )
    original = getattr(connection, answered)

    async def answer_and_cancel(*args: object) -> None:
        await original(*args)
        task.cancel()

    monkeypatch.setattr(connection, answered, answer_and_cancel)
    task = asyncio.create_task(
        connection.request(prefix, b"x", timeout=60) if ask == "request" else connection.flush()
    )
    await asyncio.wait([task])
    assert task.cancelled()


async def test_a_connection_that_is_closed_just_when_a_server_refuses_it_looks_for_no_other() -> (
    None
):
    """The same, and worse: nats-py alone would search for ever, so the process could not end."""
    broker = Broker().start()
    async with connected(broker.url) as connection:
        broker.remove()
        await until(lambda: connection.is_reconnecting)
        searching, transport = connection._reconnection_task, connection._transport

        async def refuse_and_cancel() -> None:
            searching.cancel()
            raise ConnectionRefusedError

        transport.connect = lambda *_, **__: asyncio.wait_for(refuse_and_cancel(), 1)
        await asyncio.wait({searching}, timeout=60)
        assert searching.done()


async def test_a_flush_confirms_the_subscription_that_was_made_before_it(broker: Broker) -> None:
    """nats-py alone sends the PING ahead of its buffer: one message in a few dozen found no
    subscription.
    """
    async with connected(broker.url) as ours, connected(broker.url) as theirs:
        ear = CallRecorder()
        for number in range(200):
            await theirs.subscribe_direct(f"flushed.{number}", ear)
            await theirs.flush()
            ours.publish_nowait(f"flushed.{number}", b"heard")
        await until(lambda: len(ear.heard) == 200)


async def test_a_flush_whose_caller_left_does_not_end_the_reader(
    connection: Connection, prefix: str
) -> None:
    """Its PONG comes all the same, and found a future that was cancelled."""
    ear = CallRecorder()
    await connection.subscribe_direct(prefix, ear)
    flushing = asyncio.create_task(connection.flush())
    await asyncio.sleep(0)
    flushing.cancel()
    await asyncio.wait({flushing})
    connection.publish_nowait(prefix, b"heard")
    await until(lambda: ear.data == [b"heard"])
    await connection.flush(timeout=60)
