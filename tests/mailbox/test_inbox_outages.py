"""An inbox whose surroundings come and go: its database, its service, the process itself. Nothing
is lost, nothing is spent.
"""

import asyncio
import random
from collections.abc import Iterator
from statistics import median

import pytest
from nats.aio.client import Client
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from router.core.breakers import BreakerRules, CircuitBreaker
from router.mailbox.inbox import transactional_strategy
from router.mailbox.inbox.event import InboxEvent
from router.mailbox.inbox_process import HandlerBreaker
from router.mailbox.postgres import Driver
from router.sdk.samples.service import SampleService
from tests.support.broker import Broker
from tests.support.inbox import (
    EFFECTS,
    Running,
    a_service,
    an_id,
    an_inbox,
    count_unprocessed,
    effects,
    is_settled,
    publish,
    read_dead_letters,
    record,
    record_acks,
    row_of,
)
from tests.support.postgres import Postgres, rows
from tests.support.result_pages import write_page
from tests.support.waiting import until

DATABASE_NOTE = (
    "From the database's being back to the next event; it is asked every 50 ms, each time for "
    "at most a second."
)


@pytest.fixture
def mortal() -> Iterator[Postgres]:
    """A server of the test's own, to be killed."""
    with Postgres() as server:
        yield server


@pytest.mark.timeout(120)
@pytest.mark.slow  # a database that dies and recovers
async def test_a_database_that_dies_costs_no_message_anything(
    broker: Broker, nc: Client, mortal: Postgres
) -> None:
    """T8 in small: killed twice under load."""
    seconds = await _killed_under_load(broker, nc, mortal, times=2, away_s=0.3, each=60)
    assert len(seconds) == 2


@pytest.mark.matrix
@pytest.mark.slow
async def test_a_database_killed_twenty_times(broker: Broker, nc: Client, mortal: Postgres) -> None:
    """T8: down for up to three seconds each time."""
    seconds = sorted(await _killed_under_load(broker, nc, mortal, times=20, away_s=3.0, each=200))
    line = f"| 20 | 4000 | 0 | 0 | 0 | {median(seconds):.2f} | {seconds[-1]:.2f} |\n"
    heads = (
        "| kills | events | lost | double | dead letters | resumed after, median s | longest s |\n"
        + "| ---: " * 7
        + "|\n"
    )
    write_page(
        "inbox_database",
        "An inbox whose database is killed under load",
        heads + line,
        DATABASE_NOTE,
    )


async def _killed_under_load(
    broker: Broker, nc: Client, mortal: Postgres, *, times: int, away_s: float, each: int
) -> list[float]:
    """Seconds from its being back to the next event that was handled."""
    dsn = await mortal.database()
    seconds: list[float] = []
    now = asyncio.get_running_loop().time
    async with an_inbox(broker.url, dsn, record, max_deliver=2, database_timeout=1.0) as running:
        for life in range(times):
            feeding = asyncio.create_task(_fed(nc, range(life * each, (life + 1) * each)))
            await until(lambda before=running.figures.settled: running.figures.settled > before)
            mortal.kill()
            await asyncio.sleep(random.uniform(0, away_s))
            await feeding
            await asyncio.to_thread(mortal.start)
            back, before = now(), running.figures.settled
            enough = min(before + 1, (life + 1) * each)
            await until(lambda enough=enough: running.figures.settled >= enough, within_s=30)
            seconds.append(now() - back)
            await until(lambda: is_settled(nc), within_s=30)
    found = await effects(dsn)
    assert sorted(found) == sorted(an_id(number) for number in range(times * each))
    assert (await read_dead_letters(nc), await count_unprocessed(dsn)) == ([], 0)
    return seconds


@pytest.mark.slow  # a database that dies and recovers
@pytest.mark.parametrize("is_back_at_once", [True, False])
async def test_a_database_that_dies_under_a_handler_is_not_the_messages_fault(
    broker: Broker, nc: Client, mortal: Postgres, is_back_at_once: bool
) -> None:
    """T8: on its only delivery; undone with its transaction, and run again."""
    dsn = await mortal.database()
    killed: list[str] = []
    is_dead = asyncio.Event()

    async def deadly(connection: Driver, event: InboxEvent) -> None:
        if not killed:
            killed.append(event.message_id)
            await asyncio.to_thread(mortal.kill)  # on a disk that is busy it takes its time
            is_dead.set()
            if is_back_at_once:
                await asyncio.to_thread(mortal.start)
        await record(connection, event)

    async with an_inbox(
        broker.url, dsn, deadly, max_deliver=1, handler_timeout=60.0, database_timeout=1.0
    ) as running:
        await publish(nc, [1])
        await until(is_dead.is_set, within_s=60)
        if not is_back_at_once:
            await until(lambda: running.inbox.consumer.health.paused_for, within_s=20)
            await asyncio.to_thread(mortal.start)
        await until(lambda: is_settled(nc), within_s=20)
    assert (await effects(dsn), await read_dead_letters(nc)) == ([an_id(1)], [])


@pytest.mark.slow  # as above
async def test_what_a_service_has_done_is_written_down_when_the_database_is_back(
    broker: Broker, nc: Client, mortal: Postgres
) -> None:
    """T8, SD-33: it is not told again, and nothing is acknowledged before."""
    dsn, calls = await mortal.database(), list[str]()

    async def deadly(_: Request) -> Response:
        await asyncio.to_thread(mortal.kill)
        calls.append("told")
        return Response()

    app = Starlette(routes=[Route("/handle", deadly, methods=["POST"])])
    async with (
        a_service(app) as url,
        an_inbox(broker.url, dsn, url, timeout_s=60.0, database_timeout=1.0),
        record_acks(broker.url) as heard,
    ):
        await publish(nc, [1])
        await until(lambda: calls)
        assert "+ACK" not in heard.of(1)
        await asyncio.to_thread(mortal.start)
        await until(lambda: is_settled(nc), within_s=20)
    assert (calls, await row_of(dsn, 1)) == (["told"], (True, 1, None))


async def _fed(nc: Client, numbers: range) -> None:
    """Some at a time, so that the kill comes in between."""
    for begin in range(numbers.start, numbers.stop, 10):
        await publish(nc, range(begin, min(begin + 10, numbers.stop)))


async def test_a_service_that_fails_is_left_alone_and_no_delivery_is_spent(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """SD-34: behind a breaker the consumer waits, and keeps its messages in flight."""
    service, is_down = SampleService(), True

    async def answer(request: Request) -> Response:
        return (
            Response(status_code=503) if is_down else await service.app.routes[0].endpoint(request)
        )  # type: ignore[attr-defined]

    breaker = CircuitBreaker(
        "service", BreakerRules(failure_threshold=3, success_threshold=1, timeout_s=1.5)
    )
    app = Starlette(routes=[Route("/handle", answer, methods=["POST"])])
    async with (
        a_service(app) as url,
        an_inbox(broker.url, dsn, url, breaker=HandlerBreaker(breaker), ack_wait=1.0) as running,
    ):
        await publish(nc, range(30))
        await until(lambda: "left alone" in (running.inbox.consumer.health.paused_for or ""))
        is_down = False
        await until(lambda: is_settled(nc), within_s=20)
    assert len(service.handled) == 30
    assert await read_dead_letters(nc) == []
    assert (
        max(attempts for (attempts,) in await rows(dsn, "SELECT attempts FROM inbox_messages")) <= 3
    )  # type: ignore[type-var]


async def test_a_backlog_behind_a_slow_service_is_delivered_once(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """T13 in small: each call takes longer than the ack wait, so each event is signalled to be in
    progress.

    While this process stands still on a busy machine the server may deliver one again: it is not
    handled again.
    """
    service = SampleService()
    async with (
        a_service(service.app) as url,
        an_inbox(broker.url, dsn, url, ack_wait=2.0),
        record_acks(broker.url) as heard,
    ):
        await publish(nc, range(90), {"seconds": 2.4})
        await until(lambda: is_settled(nc), within_s=20)
    assert {attempts for (attempts,) in await rows(dsn, "SELECT attempts FROM inbox_messages")} == {
        1
    }
    in_progress = {number for number, _, words in heard.seen if words == "+WPI"}
    assert (len(in_progress), in_progress) == (90, {number for number, _, _ in heard.seen})
    assert service.calls.total() == 90


@pytest.mark.matrix
@pytest.mark.slow
async def test_two_thousand_behind_a_service_that_takes_a_second(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """T13: ack wait two seconds, fifty in flight, the rest of the backlog waits on the server."""
    async with (
        a_service(SampleService().app) as url,
        an_inbox(broker.url, dsn, url, ack_wait=2.0),
        record_acks(broker.url) as heard,
    ):
        await publish(nc, range(2000), {"seconds": 1.0})
        await until(lambda: is_settled(nc), within_s=200)
    assert max(delivery for _, delivery, _ in heard.seen) == 1


@pytest.mark.slow  # ten drains
async def test_a_drain_finishes_what_was_begun(
    broker: Broker, nc: Client, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T17 in small: ten drains under load; nothing is begun twice, nothing is lost."""
    monkeypatch.setattr(transactional_strategy, "LAST_MARKS_S", 60.0)
    await _drained_under_load(broker, nc, dsn, times=10)


@pytest.mark.matrix
@pytest.mark.slow
async def test_fifty_drains(
    broker: Broker, nc: Client, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T17."""
    monkeypatch.setattr(transactional_strategy, "LAST_MARKS_S", 60.0)
    await _drained_under_load(broker, nc, dsn, times=50)


async def _drained_under_load(
    broker: Broker, nc: Client, dsn: str, *, times: int, each: int = 100
) -> None:
    await rows(dsn, EFFECTS)
    for life in range(times):
        async with an_inbox(broker.url, dsn, record, handler_timeout=600.0) as running:
            feeding = asyncio.create_task(_fed(nc, range(life * each, (life + 1) * each)))
            await until(
                lambda running=running: running.figures.settled > random.randint(0, each // 2)
            )
            await _stopped(running)
            await feeding
    async with an_inbox(broker.url, dsn, record, handler_timeout=600.0):
        await until(lambda: is_settled(nc), within_s=20)
    assert sorted(await effects(dsn)) == sorted(an_id(number) for number in range(times * each))
    assert {attempts for (attempts,) in await rows(dsn, "SELECT attempts FROM inbox_messages")} == {
        1
    }
    assert (await row_of(dsn, 0))[0] is True


async def _stopped(running: Running) -> None:
    await running.stop()
    assert running.inbox.consumer.was_clean
