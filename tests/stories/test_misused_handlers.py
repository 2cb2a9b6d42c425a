"""Handlers of the wrong shape: refused at the start, or at their first wrong answer; no message
becomes a dead letter by them.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from nats.aio.client import Client

from router import Agent, StepResult, Worker
from router.config import load
from router.core.errors import Misconfigured
from router.delivery.wire.api import JetStream
from router.mailbox.inbox_process import InboxService
from tests.support.agents import an_agent, count_applied, is_empty, publish_commands, read_sent
from tests.support.broker import Broker
from tests.support.bus import (
    QUICK,
    a_bus,
    an_envelope,
    read_bus_stream,
    run_consumer,
    wait_until_settled,
)
from tests.support.counting_agent import CountingAgent
from tests.support.delivery import connected
from tests.support.inbox import an_id, an_inbox, effects, publish, read_dead_letters, record
from tests.support.postgres import Postgres
from tests.support.waiting import until

# the handler is called on every message in flight, not on the first alone
ONE_BY_ONE = replace(QUICK, slots=1)


@pytest.fixture
async def dsn(postgres: Postgres) -> str:
    """A new database with the tables."""
    return await postgres.database()


async def _write_later(cursor: Any) -> None: ...


class _WriterLater:
    async def __call__(self, cursor: Any) -> None: ...


async def _hear_later(assignment: Any, step: Any, milliseconds: Any) -> None: ...


class _Asynchronous(CountingAgent):
    async def apply(self, ctx: Any, envelope: Any) -> Any: ...


class _Deaf(CountingAgent):
    async def receive(self, envelope: Any) -> None: ...  # type: ignore[override]


class _Narrow(CountingAgent):
    def apply(self, envelope: Any) -> Any: ...  # type: ignore[override]


class _Affirmative(CountingAgent):
    def apply(self, ctx: Any, envelope: Any) -> Any:
        return True


class _AbsentMinded(CountingAgent):
    def receive(self, envelope: Any) -> Any:
        return _write_later(envelope)


def a_worker_with(**functions: Any) -> object:
    return Worker("nats://127.0.0.1:1", lambda assignment: StepResult(), worker_id="w", **functions)


def an_inbox_with(handler: Any) -> object:
    return InboxService(load(None, {"mailbox.dsn": "postgresql:///nowhere"}).settings, handler)


async def one_argument(event: Any) -> None: ...


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: Agent("nats://127.0.0.1:1", _Asynchronous(), store="w.db"),
            "apply: .*is asynchronous",
        ),
        (lambda: Agent("nats://127.0.0.1:1", _Deaf(), store="w.db"), "receive: .*is asynchronous"),
        (
            lambda: Agent("nats://127.0.0.1:1", _Narrow(), store="w.db"),
            r"apply: .*\(ctx, envelope\)",
        ),
        (
            lambda: Worker("nats://127.0.0.1:1", lambda: None, worker_id="w"),
            r"handler: .*\(assignment\)",
        ),  # type: ignore[misc,arg-type,return-value]
        (lambda: a_worker_with(accepts=_write_later), "accepts: .*is asynchronous"),
        (lambda: a_worker_with(accepts=lambda: None), r"accepts: .*\(assignment\)"),
        (lambda: a_worker_with(on_done=_hear_later), "on_done: .*is asynchronous"),
        (
            lambda: a_worker_with(on_done=lambda assignment: None),
            r"on_done: .*\(assignment, step, milliseconds\)",
        ),
        (lambda: an_inbox_with(lambda connection, event: None), "handler: .*async def"),
        (lambda: an_inbox_with(one_argument), r"handler: .*\(connection, event\)"),
    ],
)
def test_a_handler_of_the_wrong_shape_is_refused_at_the_start(
    make: Callable[[], object], words: str
) -> None:
    with pytest.raises(Misconfigured, match=words):
        make()


async def test_a_consumer_s_handler_takes_one_envelope(nats_url: str, prefix: str) -> None:
    async with a_bus(nats_url, prefix) as bus:
        with pytest.raises(Misconfigured, match=r"handle: .*\(envelope\)"):
            await bus.consume("projector", lambda: None)  # type: ignore[misc,arg-type]
        with pytest.raises(Misconfigured, match=r"respond: .*async def"):
            await bus.respond("loops", lambda envelope: {})  # type: ignore[misc,arg-type,return-value]
        assert (
            await bus.jetstream.consumer(f"{prefix}-events", bus.settings.durable("projector"))
            is None
        ), "nothing was made for it"


@pytest.mark.parametrize(
    ("answer", "words"),
    [(True, "returned bool"), (200, "returned int"), (lambda cursor: None, "SQLite")],
)
async def test_a_consumer_whose_handler_answers_nonsense_ends_and_its_messages_stay(
    nats_url: str, prefix: str, answer: Any, words: str
) -> None:
    """It is called once, by each life; no attempt is spent, no dead letter is written."""
    calls = []
    async with a_bus(nats_url, prefix) as bus:
        for number in range(20):
            await bus.publisher.event(an_envelope(number))
        for _ in range(7):  # more lives than attempts
            with pytest.raises(Misconfigured, match=f"handle: .*{words}"):
                await bus.consume(
                    "projector", lambda one: calls.append(one) or answer, options=ONE_BY_ONE
                )  # type: ignore[func-returns-value]
        assert len(calls) == 7
        assert await read_bus_stream(bus, "dlq") == []
        done: set[str] = set()
        async with run_consumer(bus, lambda one: done.add(one.message_id)):
            await wait_until_settled(bus)
        assert done == {f"evt_{number}" for number in range(20)}


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (_write_later, "returned an async function"),
        (_WriterLater(), "returned an async function"),
        (lambda cursor: _write_later(cursor), "returned a coroutine"),
    ],
)
async def test_a_consumer_whose_write_is_asynchronous_ends_and_its_messages_stay(
    nats_url: str, prefix: str, tmp_path: Path, write: Any, words: str
) -> None:
    """Its body never runs; and its key is not marked, so that the mended handler writes."""
    async with a_bus(nats_url, prefix) as bus:
        for number in range(3):
            await bus.publisher.event(an_envelope(number))
        with pytest.raises(Misconfigured, match=f"handle: .*{words}"):
            async with asyncio.timeout(60):
                await bus.consume(
                    "projector", lambda _: write, options=ONE_BY_ONE, store=tmp_path / "keys.db"
                )
        done: set[str] = set()
        async with run_consumer(
            bus, lambda one: done.add(one.message_id), store=tmp_path / "keys.db"
        ):
            await wait_until_settled(bus)
        assert done == {f"evt_{number}" for number in range(3)}
        assert await read_bus_stream(bus, "dlq") == []


async def test_an_inbox_whose_function_answers_nonsense_ends_and_its_events_stay(
    broker: Broker, nc: Client, dsn: str
) -> None:
    calls = []

    async def handle(connection: Any, event: Any) -> Any:
        calls.append(event)
        return True

    async with an_inbox(broker.url, dsn, handle) as running:
        await publish(nc, range(3))
        await until(lambda: running.has_ended)
        with pytest.raises(Misconfigured, match=r"handler: .*returned bool"):
            await running.result()
    assert len(calls) == 1
    async with an_inbox(broker.url, dsn, record):
        await until(lambda: _has_effects(dsn, 3))
    assert sorted(await effects(dsn)) == [an_id(number) for number in range(3)]
    assert await read_dead_letters(nc) == []


@pytest.mark.parametrize(
    ("adapter", "words"),
    [
        (_Affirmative(), "apply: .*returned bool"),
        (_AbsentMinded(), "receive: .*returned a coroutine"),
    ],
)
async def test_an_agent_whose_method_answers_nonsense_ends_and_its_commands_stay(
    broker: Broker, nc: Client, tmp_path: Path, adapter: CountingAgent, words: str
) -> None:
    """In more lives than a command may have attempts; each is applied once when the method is
    mended.
    """
    store, feeding = tmp_path / "w.db", asyncio.create_task(publish_commands(nc, range(3)))
    for _ in range(7):
        with pytest.raises(Misconfigured, match=words):
            async with asyncio.timeout(60):
                await _life_of(adapter, broker.url, store, feeding)
    async with connected(broker.url) as connection, an_agent(broker.url, store):
        await until(lambda: is_empty(JetStream(connection)))
        assert (
            await read_sent(JetStream(connection), "meshforge.failed.>", "MESHFORGE_FAILED") == []
        )
    assert count_applied(store) == {"k-0": 1, "k-1": 1, "k-2": 1}


async def _life_of(
    adapter: CountingAgent, url: str, store: Path, feeding: "asyncio.Task[None]"
) -> None:
    async with an_agent(url, store, adapter) as running:
        await feeding
        await running.work


async def _has_effects(dsn: str, count: int) -> bool:
    return len(await effects(dsn)) == count
