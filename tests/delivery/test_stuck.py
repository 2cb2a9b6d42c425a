"""A process whose connection does not come back, though its servers can be reached, ends; it stays
while they cannot be.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from router.core.errors import ConnectionStuck
from router.delivery.wire import reconnecting, stuck
from router.delivery.wire.connection import Connection
from router.delivery.wire.reconnecting import ReconnectingClient
from router.delivery.wire.stuck import watch_connections
from tests.support.broker import Broker
from tests.support.delivery import connected
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stuck, "LOOK_EVERY_S", 0.02)


@asynccontextmanager
async def a_connection(broker: Broker) -> AsyncIterator[Connection]:
    async with connected(broker.url, reconnect_time_wait=0.05) as connection:
        yield connection


async def _wait_for_ever(_: ReconnectingClient) -> None:
    await asyncio.Event().wait()


async def _wait_in(
    connection: Connection, cause: Callable[[], Awaitable[None] | bool], drained: list[str | None]
) -> None:
    """A process at work until it is ended; `cause` makes the connection stuck, `drained` gets what
    liveness says at the drain.
    """
    async with watch_connections(connection) as watchdog:
        assert watchdog.cause is None
        if isinstance(caused := cause(), Awaitable):
            await caused
        try:
            await asyncio.Event().wait()
        finally:
            drained.append(watchdog.cause)


async def test_a_connection_that_does_not_come_back_to_a_server_that_can_be_reached_ends_its_process(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    drained: list[str | None] = []
    async with a_connection(broker) as connection:
        monkeypatch.setattr(ReconnectingClient, "_attempt_reconnect", _wait_for_ever)
        with pytest.raises(ConnectionStuck) as ended:
            await _wait_in(connection, connection.force_reconnect, drained)
    assert drained == [str(ended.value)]
    assert "can be reached" in str(ended.value)


async def test_a_broker_that_is_away_ends_no_process(broker: Broker) -> None:
    looks = 0

    async with a_connection(broker) as connection:
        can_open_another = connection.can_open_another

        async def look() -> bool:
            nonlocal looks
            looks += 1
            return await can_open_another()

        connection.can_open_another = look
        async with watch_connections(connection) as watchdog:
            broker.kill()
            await until(lambda: looks > 2 * stuck.STUCK_LOOKS)
            broker.start()
            await until(lambda: connection.reconnect_count == 1)
            await connection.flush()
            assert watchdog.cause is None


async def test_a_connection_whose_own_tasks_stand_still_ends_its_process_wherever_the_servers_are(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its task that sends PINGs has ended: a server that vanishes would never be noticed."""
    monkeypatch.setattr(reconnecting, "STILL_AFTER_S", 0.05)
    async with connected(broker.url, ping_interval=0.05) as connection:
        assert connection._ping_interval_task is not None
        with pytest.raises(ConnectionStuck, match="stands still"):
            await _wait_in(connection, connection._ping_interval_task.cancel, [])


async def test_a_connection_that_is_closed_ends_its_process(broker: Broker) -> None:
    async with a_connection(broker) as connection:
        with pytest.raises(ConnectionStuck, match="closed for good"):
            await _wait_in(connection, connection.close, [])


async def test_a_cancellation_from_outside_stays_one(broker: Broker) -> None:
    async def work() -> None:
        async with a_connection(broker) as connection, watch_connections(connection):
            entered.set()
            await asyncio.Event().wait()

    entered = asyncio.Event()
    task = asyncio.create_task(work())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
