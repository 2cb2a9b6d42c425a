"""A connection that never comes back from looking for a server: every kind of process ends, so that
its supervisor starts a new one.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from router import Agent, Client, Worker
from router.config import load
from router.core.errors import ConnectionStuck, NoRouter
from router.delivery.wire import stuck
from router.delivery.wire.first_connection import connect
from router.delivery.wire.reconnecting import ReconnectingClient
from router.mailbox.inbox_process import InboxService
from router.mailbox.relay_process import RelayService
from router.sdk.bus import Bus
from router.sdk.extension import ExtensionServer
from router.sdk.samples.extensions.mask_payload import mask_payload
from router.serve.service import RouterService
from tests.support.broker import Broker
from tests.support.bus import a_bus
from tests.support.counting_agent import CountingAgent
from tests.support.inbox import create_events, record
from tests.support.observability import http_get
from tests.support.postgres import Postgres
from tests.support.sdk import some_worker_streams
from tests.support.service import settings_for
from tests.support.waiting import until

# the argument: called when the process is ready
Run = Callable[[Callable[..., None]], Awaitable[None]]


async def _hang(_: ReconnectingClient) -> None:
    """The defect that the watchdog is for: whatever it may be, no attempt ends."""
    await asyncio.Event().wait()


async def _ends_when_it_does_not_come_back(
    run: Run, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stuck, "LOOK_EVERY_S", 0.02)
    ready = asyncio.Event()
    work = asyncio.ensure_future(run(lambda *_: ready.set()))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({work, waiting}, return_when=asyncio.FIRST_COMPLETED)
    assert ready.is_set() or await work is None
    monkeypatch.setattr(ReconnectingClient, "_attempt_reconnect", _hang)
    broker.kill()
    await asyncio.to_thread(broker.start)
    with pytest.raises(ConnectionStuck, match="can be reached"):
        await work


def _mailbox_settings(broker: Broker, dsn: str) -> Any:
    drain = {"drain.soft_deadline_ms": 100, "drain.hard_deadline_ms": 200}
    return load(
        None, {"nats.url": broker.url, "http.port": 0, "mailbox.dsn": dsn, **drain}, {}
    ).settings


@pytest.mark.parametrize("kind", ["relay", "inbox"])
async def test_a_mailbox_process_ends(
    kind: str, broker: Broker, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = _mailbox_settings(broker, await postgres.database())
    await create_events(broker)
    service = RelayService(settings) if kind == "relay" else InboxService(settings, record)
    await _ends_when_it_does_not_come_back(service.run, broker, monkeypatch)


async def test_a_router_ends(broker: Broker, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_for(
        broker.url, prefix, drain__soft_deadline_ms=100, drain__hard_deadline_ms=200
    )
    await _ends_when_it_does_not_come_back(RouterService(settings).run, broker, monkeypatch)


async def test_an_agent_ends(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(broker.url, CountingAgent(), store=tmp_path / "witness.db", drain_s=0.1)
    await _ends_when_it_does_not_come_back(agent.work, broker, monkeypatch)


async def test_a_worker_ends(broker: Broker, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with some_worker_streams(broker.url, prefix) as place:
        worker: Worker = place.worker(lambda _: None, drain_s=0.1)
        await _ends_when_it_does_not_come_back(worker.work, broker, monkeypatch)


async def test_an_extension_ends(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ExtensionServer(mask_payload, nats=broker.url, drain_s=0.1)
    await _ends_when_it_does_not_come_back(server.work, broker, monkeypatch)


async def test_a_consumer_of_the_bus_ends(
    broker: Broker, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_bus(broker.url, prefix) as bus:
        await _ends_when_it_does_not_come_back(_consume(bus), broker, monkeypatch)


def _consume(bus: Bus) -> Run:
    async def run(on_ready: Callable[..., None]) -> None:
        async def handle(_: object) -> None: ...

        work = asyncio.ensure_future(bus.consume("projector", handle))
        await until(
            lambda: bus.jetstream.consumer(
                f"{bus.settings.stream_prefix}-events", bus.settings.durable("projector")
            )
        )
        on_ready()
        await work

    return run


async def test_a_responder_of_the_bus_ends(
    broker: Broker, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def respond(_: object) -> dict[str, object]:
        return {}

    async def run(on_ready: Callable[..., None]) -> None:
        on_ready()
        await bus.respond("LoopState", respond)

    async with a_bus(broker.url, prefix) as bus:
        await _ends_when_it_does_not_come_back(run, broker, monkeypatch)


async def test_a_program_with_a_client_is_told_in_every_call_and_goes_on(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be anything, such as a web server: nothing of it is cancelled, and another client
    works.
    """
    monkeypatch.setattr(stuck, "LOOK_EVERY_S", 0.02)
    question: dict[str, Any] = {
        "tenant_id": "acme",
        "message_type": "chat",
        "payload": "hello",
        "timeout": 20.0,
    }
    async with Client(broker.url) as client:
        asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        silent = await connect({"servers": [broker.url]})  # a router that answers too late
        await silent.subscribe_direct(client._subject, lambda *_: asked.set_result(None))
        await silent.flush()
        asking = asyncio.create_task(client.decide(**question))
        await asked
        await silent.close()
        with monkeypatch.context() as broken:
            broken.setattr(ReconnectingClient, "_attempt_reconnect", _hang)
            broker.kill()
            await asyncio.to_thread(broker.start)
            with pytest.raises(ConnectionStuck, match=r"can be reached, .* open another client"):
                await asking
        with pytest.raises(ConnectionStuck):
            await client.decide(**question)
        with pytest.raises(ConnectionStuck):
            await anext(client.invoke_stream(tenant_id="acme", provider_id="echo", prompt="hello"))
        async with Client(broker.url) as another:
            with pytest.raises(NoRouter):
                await another.decide(**question)


async def test_a_program_that_publishes_to_the_bus_is_told_by_its_next_call(
    broker: Broker, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stuck, "LOOK_EVERY_S", 0.02)
    event: dict[str, Any] = {"actor_id": "u", "actor_kind": "HUMAN"}
    async with a_bus(broker.url, prefix) as bus:
        await bus.publish("LoopCreated", {"loop_id": "l"}, message_id="evt_1", **event)
        monkeypatch.setattr(ReconnectingClient, "_attempt_reconnect", _hang)
        broker.kill()
        await asyncio.to_thread(broker.start)
        await until(lambda: bus._watchdog is not None and bus._watchdog.cause is not None)
        with pytest.raises(ConnectionStuck, match=r"can be reached, .* open another bus"):
            await bus.publish("LoopCreated", {"loop_id": "l"}, message_id="evt_2", **event)


@asynccontextmanager
async def _running(run: Run) -> AsyncIterator[str]:
    """A process until the end of the block; its address."""
    ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    work = asyncio.ensure_future(run(ready.set_result))
    try:
        yield getattr(await ready, "http", None) or str(ready.result())
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


@pytest.mark.parametrize("kind", ["router", "relay", "inbox"])
async def test_liveness_says_so_until_the_process_has_drained(
    kind: str, broker: Broker, prefix: str, postgres: Postgres
) -> None:
    mailbox = _mailbox_settings(broker, await postgres.database())
    await create_events(broker)
    service: Any = {
        "router": lambda: RouterService(settings_for(broker.url, prefix)),
        "relay": lambda: RelayService(mailbox),
        "inbox": lambda: InboxService(mailbox, record),
    }[kind]()
    async with _running(service.run) as address:
        port = int(address.rpartition(":")[2])
        assert await http_get(port, "/healthz") == (200, b"ok\n")
        service._host.watchdog.cause = "the connection stands still"
        assert await http_get(port, "/healthz") == (503, b"the connection stands still\n")
