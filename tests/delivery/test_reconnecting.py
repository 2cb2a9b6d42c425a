"""A connection whose server vanishes, talks nonsense or is left goes to another one, within a bound
and for good.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from router.delivery.wire.connection import Connection
from router.delivery.wire.first_connection import connect
from router.delivery.wire.ping_schedule import IDLE_TICKS, PingSchedule, TransportProgress
from router.delivery.wire.reconnecting import PING_EVERY_S
from tests.support.broker import Broker
from tests.support.delivery import connected
from tests.support.vanishing import a_path_to
from tests.support.waiting import until

PINGS: dict[str, Any] = {
    "ping_interval": 0.2,
    "max_outstanding_pings": 2,
    "reconnect_time_wait": 0.05,
    "dont_randomize": True,
}
UNSENT = 64  # MiB: more than the sockets of one machine hold between them


async def test_unsent_output_does_not_keep_a_connection_on_a_server_that_is_gone(
    broker: Broker,
) -> None:
    """The transport waits for the peer to take what was written, which it never does: its time is
    bounded, then it is cut off.
    """
    async with a_path_to(broker) as path, connected(path.url, broker.url, **PINGS) as connection:
        path.is_cut.set()
        for _ in range(UNSENT):
            connection.publish_nowait("into.the.void", bytes(1024 * 1024 - 64))
        await until(lambda: connection.reconnect_count == 1)
        await connection.flush()


class PonglessServer:
    """Speaks the protocol up to the login. Afterwards it answers no PING, and sends messages as
    long as it `is_talking`.
    """

    def __init__(self) -> None:
        self.is_talking = True
        self.pings = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        info = {
            "server_id": "S",
            "version": "2.11.0",
            "proto": 1,
            "max_payload": 1_048_576,
            "headers": True,
        }
        writer.write(b"INFO " + json.dumps(info).encode() + b"\r\n")
        while b"PING" not in await reader.readline():
            pass
        writer.write(b"PONG\r\n")
        while line := await reader.readline():
            self.pings += line == b"PING\r\n"
            if self.is_talking:
                writer.write(b"MSG away 1 2\r\nhi\r\n")


@asynccontextmanager
async def a_pongless_server() -> AsyncIterator[PonglessServer]:
    server = PonglessServer()
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"nats://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()


async def test_a_server_whose_pong_is_late_is_alive_as_long_as_anything_comes_from_it(
    broker: Broker,
) -> None:
    async with (
        a_pongless_server() as server,
        connected(server.url, broker.url, **PINGS | {"ping_interval": 0.1}) as connection,
    ):
        await until(lambda: server.pings > 2 * PINGS["max_outstanding_pings"])
        assert connection.reconnect_count == 0
        server.is_talking = False
        await until(lambda: connection.reconnect_count and _port(connection) == broker.port)


async def test_a_server_that_goes_on_talking_and_hears_nothing_is_left(broker: Broker) -> None:
    """What it sends proves nothing about what is sent to it: no write would ever arrive, and no
    PING is answered.
    """
    async with (
        a_pongless_server() as server,
        connected(server.url, broker.url, **PINGS | {"ping_interval": 0.01}) as connection,
    ):
        await until(lambda: connection.reconnect_count and _port(connection) == broker.port)
        assert server.is_talking


async def test_a_server_that_talks_nonsense_does_not_end_the_search_for_another(
    broker: Broker,
) -> None:
    """A line without an end is no OSError and no error of nats-py, which would look for no server
    any more.
    """

    async def talk_nonsense(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(bytes(1024 * 1024))

    listener = await asyncio.start_server(talk_nonsense, "127.0.0.1", 0)
    nonsense = f"nats://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    second = Broker().start()
    connection = await connect({"servers": [broker.url, nonsense, second.url], **PINGS})
    try:
        await connection.force_reconnect()
        await until(lambda: connection.reconnect_count == 1)
        assert not connection.is_standing_still
        await connection.flush()
    finally:
        await connection.close()
        listener.close()
        second.remove()


async def test_a_callback_that_fails_does_not_end_the_search_for_a_server(broker: Broker) -> None:
    async def fail() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError

    calls: list[int] = []
    connection = await connect({"servers": [broker.url], **PINGS}, on_lost=fail)
    try:
        await connection.force_reconnect()
        await until(lambda: connection.reconnect_count == 1)
        assert calls == [1, 1]
    finally:
        await connection.close()


async def test_the_server_that_was_left_is_not_the_next_one_and_is_left_once_for_all_who_ask(
    broker: Broker,
) -> None:
    """Whichever order the client tries them in."""
    with Broker() as second:
        for _ in range(5):
            async with connected(broker.url, second.url, reconnect_time_wait=0.05) as connection:
                await _leave(connection)


async def _leave(connection: Connection) -> None:
    before = _port(connection)
    assert [await connection.leave_server() for _ in range(3)] == [True, False, False]
    await until(lambda: connection.reconnect_count == 1)
    assert _port(connection) != before
    assert await connection.leave_server() is False


async def test_an_idle_connection_sends_a_ping_every_few_ticks_only(broker: Broker) -> None:
    """Of fifty idle instances, PINGs were a third of what they cost the server."""
    async with connected(
        broker.url, **PINGS | {"ping_interval": 0.02, "max_outstanding_pings": 10_000}
    ) as connection:
        ticks = 0
        before = connection._pongs_received
        schedule_is_due = PingSchedule.is_due

        def count(schedule: PingSchedule, progress: TransportProgress) -> bool:
            nonlocal ticks
            ticks += 1
            return schedule_is_due(schedule, progress)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PingSchedule, "is_due", count)
            await until(lambda: ticks >= 5 * IDLE_TICKS)
        # more than a few where this process stood still: silence is asked about
        assert 1 <= connection._pongs_received - before < ticks
        assert connection.reconnect_count == 0


async def test_a_silent_server_is_noticed_within_eight_seconds_unless_the_options_say_more(
    broker: Broker,
) -> None:
    async with connected(broker.url) as connection:
        assert connection.options["ping_interval"] == PING_EVERY_S
        assert PING_EVERY_S * (connection.options["max_outstanding_pings"] + 2) <= 8


def _port(connection: Connection) -> int | None:
    assert connection.connected_url is not None
    return connection.connected_url.port
