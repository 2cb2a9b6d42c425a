"""A client while its broker is away: nothing that its caller gave up is sent later."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from router import Client
from router.core.errors import BrokerUnavailable, RouterError, Unanswered
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import Connection
from router.delivery.wire.first_connection import connect
from router.sdk.bus import Bus
from tests.support.broker import Broker
from tests.support.bus import a_bus, an_envelope
from tests.support.waiting import until

Ask = Callable[[Client, float], Awaitable[object]]
OK = b'{"ok":true,"context":{}}'


async def decide(client: Client, timeout_s: float) -> object:
    return await client.decide(
        tenant_id="acme",
        message_type="chat",
        payload="hello",
        push=True,
        timeout=timeout_s,
        attempts=2,
    )


async def invoke(client: Client, timeout_s: float) -> object:
    return await client.invoke(
        tenant_id="acme", provider_id="echo", prompt="hello", timeout=timeout_s
    )


async def stream(client: Client, timeout_s: float) -> object:
    return [
        one
        async for one in client.invoke_stream(
            tenant_id="acme", provider_id="echo", prompt="hello", timeout=timeout_s
        )
    ]


@pytest.fixture
async def heard(own_broker: Broker) -> AsyncIterator[list[str]]:
    """The subjects of the requests that arrive, before and after the broker was away.

    A stream has them too, as a router's has: a client that is back before the connection that
    answers hears of no absent subscriber.
    """
    heard: list[str] = []
    connection = await connect({"servers": [own_broker.url], "reconnect_time_wait": 0.01})
    await JetStream(connection).ask(
        "STREAM.CREATE.SENT", {"name": "SENT", "subjects": ["beamline.>"], "no_ack": True}
    )

    def hear(subject: str, inbox: str, _data: bytes, headers: object) -> None:
        heard.append(subject)
        connection.publish_nowait(inbox, OK)

    await connection.subscribe_direct("beamline.>", hear)
    await connection.flush()
    yield heard
    await connection.close()


async def away(broker: Broker, *connections: Connection) -> None:
    broker.kill()
    await until(lambda: not any(connection.is_connected for connection in connections))


@pytest.mark.parametrize("ask", [decide, invoke, stream])
async def test_what_was_asked_while_the_broker_was_away_is_never_sent(
    own_broker: Broker, heard: list[str], ask: Ask
) -> None:
    async with Client(own_broker.url) as client:
        await away(own_broker, client._open())
        with pytest.raises(BrokerUnavailable, match="nothing was sent"):
            await ask(client, 0.1)
        await asyncio.to_thread(own_broker.start)
        await until(lambda: client._open().is_connected)
        await decide(client, 10)  # after whatever the buffer held
        stream = await JetStream(client._open()).ask("STREAM.INFO.SENT", {"subjects_filter": ">"})
    assert stream is not None
    assert {*heard, *stream["state"].get("subjects", {})} == {"beamline.router.v1.decide"}
    assert max(len(heard), stream["state"]["messages"]) <= 2


async def test_a_request_waits_within_its_time_for_the_broker_to_come_back(
    own_broker: Broker, heard: list[str]
) -> None:
    async with Client(own_broker.url) as client:
        await away(own_broker, client._open())
        asking = asyncio.create_task(decide(client, 20))
        await asyncio.to_thread(own_broker.start)
        await asking
    assert heard


async def test_a_request_that_was_sent_before_is_unanswered(own_broker: Broker) -> None:
    """Its outcome is not known."""
    connection = await connect({"servers": [own_broker.url]})
    arrived = asyncio.Event()
    await connection.subscribe_direct("beamline.>", lambda *_: arrived.set())
    await connection.flush()
    async with Client(own_broker.url) as client:
        asking = asyncio.create_task(decide(client, 1.0))
        await arrived.wait()
        await away(own_broker, client._open())
        with pytest.raises(Unanswered):
            await asking
    await connection.close()


async def test_a_query_that_was_given_up_is_never_sent(own_broker: Broker, prefix: str) -> None:
    async with a_bus(own_broker.url, prefix) as bus:
        await away(own_broker, bus.jetstream.connection)
        with pytest.raises(BrokerUnavailable):
            await bus.query("status", an_envelope(), timeout=0.1)
        await asyncio.to_thread(own_broker.start)
        await until(lambda: bus.jetstream.connection.is_connected)
        await bus.jetstream.connection.flush()
        assert await _stored_queries(bus) == 0


async def _stored_queries(bus: Bus) -> int:
    info = await bus.jetstream.stream(f"{bus.settings.stream_prefix}-queries")
    assert info is not None
    stored: int = info["state"]["messages"]
    return stored


async def test_a_stream_s_request_above_the_server_s_limit_is_refused_before_it_closes_the_connection(
    nats_url: str,
) -> None:
    async with Client(nats_url) as client:
        with pytest.raises(RouterError, match="above the server's limit"):
            async for _ in client.invoke_stream(
                tenant_id="acme", provider_id="echo", prompt="x" * (9 << 20), timeout=3
            ):
                pass
        assert client._open().is_connected
