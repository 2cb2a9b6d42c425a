"""The socket on a real server: messages pass nats-py's stream by, everything else does not, and
nothing is lost or overtaken.
"""

import asyncio
from contextlib import closing

from router.delivery.wire.connection import Connection
from router.delivery.wire.frames import DirectProtocol, DirectTransport
from tests.support.broker import Broker
from tests.support.delivery import CallRecorder, connected
from tests.support.waiting import until

MANY = 2_000


class Parses:
    """Counts the chunks that go nats-py's way, but the server's own PING, which comes when it
    likes.
    """

    def __init__(self, connection: Connection) -> None:
        self.count = 0
        self._parse = connection._ps.parse
        connection._ps.parse = self  # type: ignore[method-assign]

    async def __call__(self, data: bytes = b"") -> None:
        self.count += not data.startswith(b"PING")
        await self._parse(data)


class Nowhere(asyncio.Transport):
    """No socket."""

    def is_closing(self) -> bool:
        return True

    def close(self) -> None: ...


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


async def test_attended_messages_never_go_nats_pys_way(connection: Connection, prefix: str) -> None:
    ear = CallRecorder()
    await connection.subscribe_direct(prefix, ear)
    await connection.flush()
    parses = Parses(connection)
    for data in numbered(MANY):
        connection.publish_nowait(prefix, data)
    await until(lambda: len(ear.data) == MANY)
    assert (ear.data, parses.count) == (numbered(MANY), 0)


async def test_after_everything_else_messages_pass_by_again(
    connection: Connection, prefix: str
) -> None:
    ear = CallRecorder()
    await connection.subscribe_direct(prefix, ear)
    parses = Parses(connection)
    await connection.flush()  # its PONG is no message, so no subscription counts it
    before = parses.count
    connection.publish_nowait(prefix, b"1")
    await until(lambda: ear.data == [b"1"])
    assert before > 0
    assert parses.count == before


async def test_ordinary_subscriptions_and_attended_ones_hear_in_order_beside_each_other(
    broker: Broker, connection: Connection, prefix: str
) -> None:
    attended, ordinary = CallRecorder(), CallRecorder()
    await connection.subscribe_direct(f"{prefix}.a", attended)
    await connection.subscribe(f"{prefix}.b", cb=ordinary.on_message)
    await connection.flush()
    async with connected(broker.url) as other:
        for number in range(MANY):
            other.publish_nowait(
                f"{prefix}.{'ab'[number % 2]}", b"%d" % number + b"x" * (number % 97) ** 2
            )
            if number % 50 == 0:
                await asyncio.gather(other.flush(), connection.flush())
    await until(lambda: len(attended.data) + len(ordinary.data) == MANY)
    assert [int(data.partition(b"x")[0]) for data in attended.data] == list(range(0, MANY, 2))
    assert [int(data.partition(b"x")[0]) for data in ordinary.data] == list(range(1, MANY, 2))


async def test_what_a_slow_server_cannot_take_waits_and_comes_in_order(prefix: str) -> None:
    with Broker() as broker:
        async with connected(broker.url) as connection, connected(broker.url) as other:
            ear = CallRecorder()
            await other.subscribe_direct(prefix, ear)
            await other.flush()
            broker.pause()
            full = (
                lambda: not connection._transport.is_idle,
                lambda: not connection._pending,
                lambda: not connection._will_write,
            )
            # the socket is full; the flusher took the next, and waits; the rest stays here
            for lump, is_reached in enumerate(full):
                for number in range(lump * 100, lump * 100 + 100):
                    connection.publish_nowait(prefix, b"%d" % number + b"x" * 100_000)
                await until(is_reached)
            pending = len(connection._pending)
            broker.unpause()
            assert pending == 300  # three parts each, not handed to a socket that is full
            await until(lambda: len(ear.data) == 300, within_s=20)
            assert [int(data.partition(b"x")[0]) for data in ear.data] == list(range(300))


async def test_what_is_posted_to_a_connection_that_just_broke_is_sent_over_the_next(
    connection: Connection, prefix: str
) -> None:
    ear = CallRecorder()
    await connection.subscribe_direct(prefix, ear)
    await connection.flush()
    life = connection.reconnect_count
    connection._transport._io_writer.transport.abort()
    assert connection.is_connected  # it does not know yet
    connection.publish_nowait(prefix, b"kept")
    await until(lambda: connection.reconnect_count > life and ear.data == [b"kept"])


async def test_after_a_reconnect_messages_pass_by_as_before(
    connection: Connection, prefix: str
) -> None:
    ear = CallRecorder()
    await connection.subscribe_direct(prefix, ear)
    life = connection.reconnect_count
    await connection.force_reconnect()
    await until(lambda: connection.is_connected and connection.reconnect_count > life)
    await connection.flush()
    parses = Parses(connection)
    connection.publish_nowait(prefix, b"after")
    await until(lambda: ear.data == [b"after"])
    assert parses.count == 0


async def test_who_hears_and_raises_costs_its_connection_and_no_more(
    connection: Connection, prefix: str
) -> None:
    """`attend_raw` trusts its function; even so the next connection reads and writes."""
    heard: list[bytes] = []

    def hear(_subject: bytes, _reply: bytes, data: bytes, _head: bytes | None) -> None:
        heard.append(data)
        if data == b"poison":
            raise ValueError("mine")

    await connection.subscribe_raw(prefix, hear)
    await connection.flush()
    life = connection.reconnect_count
    connection.publish_nowait(prefix, b"poison")
    await until(lambda: connection.is_connected and connection.reconnect_count > life)
    connection.publish_nowait(prefix, b"good")
    await until(lambda: heard == [b"poison", b"good"])


async def test_a_listener_that_asks_a_cancelled_future_costs_nothing(
    connection: Connection, prefix: str
) -> None:
    """A CancelledError is no Exception; asyncio would close the socket with it, and nats-py's
    search for another end.
    """
    ear, faults = CallRecorder(), []
    connection.on_fault = faults.append
    gone = asyncio.get_running_loop().create_future()
    gone.cancel()
    await connection.subscribe_direct(f"{prefix}.bad", lambda *_: gone.result())
    await connection.subscribe_raw(f"{prefix}.worse", lambda *_: gone.result())
    await connection.subscribe_direct(f"{prefix}.good", ear)
    life = connection.reconnect_count
    connection.publish_nowait(f"{prefix}.bad")
    await until(lambda: len(faults) == 1)
    assert connection.reconnect_count == life
    connection.publish_nowait(f"{prefix}.worse")
    await until(lambda: connection.is_connected and connection.reconnect_count > life)
    connection.publish_nowait(f"{prefix}.good", b"heard")
    await until(lambda: ear.data == [b"heard"])
    assert [type(fault) for fault in faults] == [asyncio.CancelledError] * 2


async def test_who_closes_a_broken_connection_with_something_pending_closes_it(prefix: str) -> None:
    """nats-py alone raises in the middle: it calls no callback, and closing again does nothing."""
    broker, closed = Broker().start(), asyncio.Event()

    async def on_closed() -> None:
        closed.set()

    connection = Connection()
    await connection.connect(broker.url, closed_cb=on_closed)
    try:
        await connection.subscribe_direct(prefix, CallRecorder())
        connection._transport._io_writer.transport.abort()
        connection.publish_nowait(prefix, b"never sent")
        await connection.close()
        assert (closed.is_set(), connection.is_closed, len(connection._subs)) == (True, True, 0)
    finally:
        broker.remove()


async def test_what_an_error_left_in_the_buffer_is_not_joined_to_the_next_connection() -> None:
    """A server that goes on speaking after an error: the frame that it began belongs to no message."""
    lives = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal lives
        lives += 1
        writer.write(
            b'INFO {"server_id":"x","version":"2.11.0","max_payload":1048576,"headers":true}\r\n'
        )
        life, sid = lives, b""
        # from Python 3.12.1 on the server's end waits until each connection is closed
        with closing(writer):
            while line := await reader.readline():
                if line.startswith(b"PING"):
                    writer.write(b"PONG\r\n")
                elif line.startswith(b"SUB"):
                    sid = line.split()[-1]
                elif line.startswith(b"PUB go"):
                    broken = b"-ERR 'Invalid Subject'\r\nMSG x %b 60\r\nSECRET-OF-THE-FIRST" % sid
                    writer.write(broken if life == 1 else b"MSG x %b 2\r\nok\r\n" % sid)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        connection, ear = Connection(), CallRecorder()
        await connection.connect(
            f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}", reconnect_time_wait=0.01
        )
        try:
            await connection.subscribe_direct("x", ear)
            await connection.flush()
            connection.publish_nowait("go")
            await until(lambda: lives == 2 and connection.is_connected)
            await connection.flush()
            connection.publish_nowait("go")
            await until(lambda: ear.data)
            assert (ear.data, lives) == ([b"ok"], 2)
        finally:
            await connection.close()


async def test_the_transport_is_ours(connection: Connection) -> None:
    assert isinstance(connection._transport, DirectTransport)


async def test_nothing_overtakes_what_the_stream_still_holds() -> None:
    heard: list[bytes] = []

    def hear(data: bytes) -> bytes:
        heard.append(data)
        return data if data == b"PING" else b""

    transport, protocol = DirectTransport(hear), DirectProtocol(1_000)
    transport._stand_on(protocol, Nowhere())
    reading = asyncio.create_task(transport.read(4))
    await asyncio.sleep(0)
    for chunk in (b"MSG1", b"PING", b"MSG2"):  # the last comes before the reader was woken
        protocol.data_received(chunk)
    assert (heard, await reading) == ([b"MSG1", b"PING"], b"PING")
    assert await transport.read(4) == b"MSG2"
    protocol.data_received(b"MSG3")  # the reader has MSG2, and has not said that it is parsed
    assert heard == [b"MSG1", b"PING"]
    assert await transport.read(4) == b"MSG3"
    reading = asyncio.create_task(transport.read(4))
    await asyncio.sleep(0)
    protocol.data_received(b"MSG4")
    assert heard == [b"MSG1", b"PING", b"MSG4"]
    reading.cancel()
