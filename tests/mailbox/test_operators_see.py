"""What an operator of a relay, an inbox or an agent is shown: streams that drifted, a database or a
broker that is away.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from router.config import Settings, load
from router.delivery.wire.api import JetStream
from router.delivery.wire.first_connection import connect
from router.mailbox import inbox_process as inbox
from router.mailbox import streams
from router.mailbox.inbox.consumer import NatsJetStreamConsumer
from router.mailbox.inbox_finding import examine_inbox
from router.mailbox.inbox_process import InboxService
from router.mailbox.relay_process import RelayService
from router.operate.doctor import Verdict
from router.sdk.agent import Agent
from router.shell import host
from tests.support.beside import beside
from tests.support.broker import Broker
from tests.support.counting_agent import CountingAgent
from tests.support.inbox import (
    EFFECTS,
    EVENTS,
    an_inbox,
    create_events,
    is_settled,
    publish,
    record,
)
from tests.support.mailbox import an_outbox_stream
from tests.support.postgres import Postgres, rows
from tests.support.waiting import until


class Lines:
    """A logger that keeps its lines: the event, and the facts of it."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, dict[str, Any]]] = []

    def error(self, event: str, **facts: Any) -> None:
        self.kept.append((event, facts))

    info = warning = error

    def of(self, event: str) -> list[dict[str, Any]]:
        return [facts for name, facts in self.kept if name == event]


@pytest.fixture
def drifts(monkeypatch: pytest.MonkeyPatch) -> Lines:
    lines = Lines()
    monkeypatch.setattr(streams, "log", lines)
    monkeypatch.setattr(streams, "DRIFT_EVERY_S", 0.05)
    return lines


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> Lines:
    lines = Lines()
    monkeypatch.setattr(host, "log", lines)
    return lines


@pytest.fixture
def mortal() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


def settings_of(broker: Broker, dsn: str, **more: object) -> Settings:
    return load(
        None, {"nats.url": broker.url, "http.port": 0, "mailbox.dsn": dsn, **more}, {}
    ).settings


@asynccontextmanager
async def at_work(
    work: Coroutine[Any, Any, None], ready: asyncio.Event | None = None
) -> AsyncIterator[None]:
    """Entered when `ready` is set, if there is one. Raises what the work ends of."""
    async with beside(work) as task:
        if ready is not None:
            waiting = asyncio.create_task(ready.wait())
            await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if task.done():
                await task
        yield


async def test_a_relay_tells_that_its_stream_is_not_as_declared(
    dsn: str, broker: Broker, drifts: Lines
) -> None:
    """A duplicate window of a second, three messages at most: seven of ten events were dropped, and
    nothing said so.
    """
    async with (
        an_outbox_stream(broker) as place,
        at_work(RelayService(settings_of(broker, dsn)).run()),
    ):
        await until(lambda: place.holds(0))
        config = (await place.patient.stream("SEA_EVENTS") or {})["config"]
        await place.patient.ask(
            "STREAM.UPDATE.SEA_EVENTS", {**config, "duplicate_window": 1_000_000_000, "max_msgs": 3}
        )
        await until(lambda: drifts.of("topology.drift"))
    (told,) = drifts.of("topology.drift")
    assert "duplicate_window is 1000000000" in told["difference"]
    assert "mailbox.events" in told["mend"]


async def test_a_relay_is_not_ready_while_its_stream_is_not_as_declared(
    dsn: str, broker: Broker, drifts: Lines
) -> None:
    service = RelayService(settings_of(broker, dsn))
    async with an_outbox_stream(broker, window=1.0), at_work(service.run()):
        await until(
            lambda: "topology" in service.readiness() and not service.readiness()["topology"].ok
        )
    assert len(drifts.of("topology.drift")) == 1


async def test_an_inbox_tells_that_its_dead_letters_stream_is_not_as_declared(
    dsn: str, broker: Broker, nc: Client, drifts: Lines
) -> None:
    await rows(dsn, EFFECTS)
    await create_events(broker)
    service = InboxService(settings_of(broker, dsn), record)
    ready = asyncio.Event()
    async with at_work(service.run(lambda _: ready.set()), ready):
        js = nc.jetstream()
        config = (await js.stream_info("SEA_DLQ")).config
        config.max_msgs = 3
        config.discard = "old"  # type: ignore[assignment]
        await js.update_stream(config)
        await until(lambda: drifts.of("topology.drift"))
        assert not service.readiness()["topology"].ok
    assert "SEA_DLQ" in drifts.of("topology.drift")[0]["difference"]


async def test_an_inbox_is_announced_once_its_durable_is_there(
    dsn: str, broker: Broker, nc: Client
) -> None:
    """A caller that published at the line was never heard where the durable delivers new events
    only.
    """
    service, ready = InboxService(settings_of(broker, dsn), record), asyncio.Event()
    async with at_work(service.run(lambda _: ready.set())):
        await until(
            lambda: service.readiness()["inbox"].detail == "its stream or consumer is missing"
        )
        await until(lambda: service._host.url)
        assert not ready.is_set()
        await create_events(broker)
        await until(ready.is_set)
        assert await nc.jetstream().consumer_info(EVENTS.name, "sea__from_vibespro")


@pytest.mark.slow  # a database that is stopped
async def test_an_inbox_is_not_ready_while_its_database_is_away_though_nothing_arrives(
    broker: Broker, mortal: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "GAUGES_EVERY_S", 0.05)
    await create_events(broker)
    service = InboxService(settings_of(broker, await mortal.database()), record)
    ready = asyncio.Event()
    async with at_work(service.run(lambda _: ready.set()), ready):
        await until(lambda: service.readiness()["database"].ok)
        mortal.kill()
        await until(lambda: not service.readiness()["database"].ok, within_s=30)
        await asyncio.to_thread(mortal.start)
        await until(lambda: service.readiness()["database"].ok, within_s=30)


@pytest.mark.parametrize("kind", ["relay", "inbox", "agent"])
async def test_a_broker_that_is_lost_and_back_is_a_line_in_the_log(
    dsn: str, broker: Broker, connections: Lines, tmp_path: Path, kind: str
) -> None:
    ready = asyncio.Event()
    settings = settings_of(broker, dsn)
    await create_events(broker)
    runs = {
        "relay": lambda: RelayService(settings).run(lambda _: ready.set()),
        "inbox": lambda: InboxService(settings, record).run(lambda _: ready.set()),
        "agent": lambda: Agent(broker.url, CountingAgent(), store=tmp_path / "witness.db").run(
            lambda _: ready.set()
        ),
    }
    async with at_work(runs[kind](), ready):
        broker.kill()
        await until(lambda: connections.of("broker.disconnected"))
        await asyncio.to_thread(broker.start)
        await until(lambda: connections.of("broker.reconnected"), within_s=20)
    assert [event for event, _ in connections.kept] == ["broker.disconnected", "broker.reconnected"]


async def test_what_a_killed_inbox_had_in_hand_is_told_with_the_time_it_takes(
    dsn: str, broker: Broker, nc: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SD-31: at the specified figures all fifty places are the dead process's for two minutes."""
    lines, ready = Lines(), asyncio.Event()
    monkeypatch.setattr(inbox, "log", lines)
    settings = settings_of(broker, dsn)
    async with an_inbox(broker.url, dsn, record, ack_wait=120.0):
        await until(lambda: is_settled(nc))
    await publish(nc, range(60))
    await take(broker.url, 50)
    async with at_work(InboxService(settings, record).run(lambda _: ready.set()), ready):
        pass
    (told,) = lines.of("inbox.waits")
    assert (told["in_hand"], told["at_most_s"], told["setting"]) == (50, 120.0, "inbox.ack_wait_ms")
    async with an_outbox_stream(broker) as place:
        (finding,) = await examine_inbox(place.patient, settings)
    assert (finding.verdict, finding.found) == (
        Verdict.WARN,
        "50 of 50 in flight; if its process is killed, they are redelivered after 2 min",
    )
    assert "inbox.ack_wait_ms" in finding.remedy


async def take(url: str, count: int) -> None:
    """A process is handed so many and dies."""
    connection = await connect({"servers": [url]})
    taken = 0
    while taken < count:
        taken += len(
            await NatsJetStreamConsumer(
                JetStream(connection), "VIBESPRO_EVENTS", "sea__from_vibespro", 0.2
            ).fetch(count - taken)
        )
    await connection.close()
