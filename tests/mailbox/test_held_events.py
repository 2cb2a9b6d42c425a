"""Events that their service does not serve now: no other one waits for them, wherever they came
from, and no attempt of theirs is lost.
"""

import asyncio

import pytest
from nats.aio.client import Client

from router.mailbox.inbox import transactional_strategy
from router.mailbox.inbox.event import InboxEvent
from router.mailbox.postgres import Driver
from tests.mailbox.test_misaddressed_service import Changing
from tests.support.broker import Broker
from tests.support.inbox import (
    a_service,
    an_id,
    an_inbox,
    effects,
    is_settled,
    publish,
    read_dead_letters,
    record,
    row_of,
)
from tests.support.ports import free_port
from tests.support.postgres import rows
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def _time_for_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database on a busy machine may take longer than a second for the marks of what was never
    begun.
    """
    monkeypatch.setattr(transactional_strategy, "LAST_MARKS_S", 60.0)


async def test_after_an_outage_one_that_is_refused_alone_keeps_no_other_waiting(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """The inbox stayed paused for the first event that it had found the service absent for, as long
    as that one was not served.
    """
    port = free_port()
    service = Changing(lambda message_id: 400 if message_id == an_id(0) else 200)
    async with an_inbox(
        broker.url, dsn, f"http://127.0.0.1:{port}/handle", max_deliver=2, ack_wait=0.5
    ) as running:
        await publish(nc, [0])
        await until(lambda: "no connection" in (running.inbox.consumer.health.paused_for or ""))
        async with a_service(service.app, port):
            await publish(nc, range(1, 30))
            await until(lambda: read_dead_letters(nc))
            await until(lambda: is_settled(nc))
    assert [letter["message_id"] for letter in await read_dead_letters(nc)] == [an_id(0)]
    assert {await row_of(dsn, number) for number in range(1, 30)} == {(True, 1, None)}


async def test_after_a_restart_one_that_is_throttled_keeps_no_other_waiting(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """What comes again is begun one at a time, because it may have killed its process; one that was
    answered has not.
    """
    service = Changing(lambda _: 429)
    async with a_service(service.app) as url:
        async with an_inbox(broker.url, dsn, url, ack_wait=60.0):
            await publish(nc, range(4))
            await until(lambda: len(set(service.calls)) == 4, what="each is held")
        throttled = {an_id(0)}
        service.answer = lambda message_id: 429 if message_id in throttled else 200
        async with an_inbox(broker.url, dsn, url, ack_wait=60.0):
            await until(lambda: _are_processed(dsn, 1, 2, 3))
            await until(lambda: _is_held(dsn, 0))
            throttled.clear()
            await until(lambda: is_settled(nc))
    assert await read_dead_letters(nc) == []


async def test_nor_does_one_after_its_last_delivery_however_often_the_inbox_was_restarted(
    broker: Broker, nc: Client, dsn: str
) -> None:
    service = Changing(lambda _: 429)
    async with a_service(service.app) as url:
        for _ in range(2):  # held by the consumer, then by the recovery
            service.calls.clear()
            async with an_inbox(broker.url, dsn, url, max_deliver=1, ack_wait=1.0):
                if not await row_of(dsn, 0):
                    await publish(nc, range(4))
                await until(lambda: len(set(service.calls)) == 4, what="each is held")
        throttled = {an_id(number) for number in range(3)}
        service.answer = lambda message_id: 429 if message_id in throttled else 200
        async with an_inbox(broker.url, dsn, url, max_deliver=1, ack_wait=1.0):
            await until(lambda: _are_processed(dsn, 3))
            throttled.clear()
            await until(lambda: _are_processed(dsn, 0, 1, 2))
    assert await read_dead_letters(nc) == []


@pytest.mark.parametrize("max_deliver", [1, 4], ids=["rescued", "delivered"])
async def test_a_dead_letter_counts_the_attempts_and_not_the_restarts(
    broker: Broker, nc: Client, dsn: str, max_deliver: int
) -> None:
    service = Changing(lambda _: 429)
    async with a_service(service.app) as url:
        for _ in range(3):
            service.calls.clear()
            async with an_inbox(broker.url, dsn, url, max_deliver=max_deliver, ack_wait=1.0):
                if not await row_of(dsn, 0):
                    await publish(nc, [0])
                await until(lambda: service.calls, what="held")
        service.answer = lambda _: 422
        async with an_inbox(broker.url, dsn, url, max_deliver=max_deliver, ack_wait=1.0):
            await until(lambda: read_dead_letters(nc))
            await until(lambda: _are_processed(dsn, 0))
    (letter,) = await read_dead_letters(nc)
    assert (letter["reason"], letter["attempts"], (await row_of(dsn, 0))[1]) == (
        "processing_error",
        1,
        1,
    )


async def _are_processed(dsn: str, *numbers: int) -> bool:
    rows = [await row_of(dsn, number) for number in numbers]
    return all(row and row[0] for row in rows)


async def _is_held(dsn: str, number: int) -> bool:
    return await row_of(dsn, number) == (False, 0, "not served: 429")


async def test_an_event_that_an_inbox_stops_before_has_all_of_its_attempts(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """It waited for its turn behind a slow one; on its only delivery it became a dead letter that
    no handler had seen.
    """
    begun = asyncio.Event()

    async def slow(connection: Driver, event: InboxEvent) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with an_inbox(
        broker.url,
        dsn,
        slow,
        max_deliver=1,
        ack_wait=1.0,
        handler_timeout=600.0,
        drain_ms=(100, 200),
    ) as stopped:
        await publish(nc, [0])
        await begun.wait()
        await publish(nc, [1])
        await until(lambda: row_of(dsn, 1), what="its row is there")
    assert ((await row_of(dsn, 0))[1], (await row_of(dsn, 1))[1]) == (1, 0)
    async with an_inbox(broker.url, dsn, record, max_deliver=1, ack_wait=1.0) as running:
        await until(lambda: _are_processed(dsn, 0, 1))
        # the first may have given its slow event up before it ended
        observers = stopped.inbox.observer, running.inbox.observer
        await until(
            lambda: (
                [sum(one.codes[code] for one in observers) for code in ("processed", "stranded")]
                == [1, 1]
            )
        )
    assert (
        await effects(dsn),
        [letter["message_id"] for letter in await read_dead_letters(nc)],
    ) == ([an_id(1)], [an_id(0)])


async def test_an_event_that_shares_the_transaction_of_one_that_hangs_has_all_of_its_attempts(
    broker: Broker, nc: Client, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The inbox stopped before its turn, when it had left the queue."""
    # however slow the first one is, the next two are one batch
    monkeypatch.setattr(transactional_strategy, "QUICK_S", 600.0)
    begun, go_on = [asyncio.Event(), asyncio.Event()], asyncio.Event()

    async def slow(connection: Driver, event: InboxEvent) -> None:
        number = int(event.message_id == an_id(1))
        begun[number].set()
        await (asyncio.Event() if number else go_on).wait()

    async with an_inbox(
        broker.url, dsn, slow, ack_wait=60.0, handler_timeout=6000.0, drain_ms=(100, 200)
    ) as running:
        await publish(nc, [0])
        await begun[0].wait()
        queue = running.inbox._strategy._queue  # type: ignore[union-attr]
        for number in (1, 2):
            await publish(nc, [number])
            await until(lambda: len(queue) == number)  # noqa: B023 - awaited here
        go_on.set()
        await begun[1].wait()
    assert [(await row_of(dsn, number))[:2] for number in range(3)] == [
        (True, 1),
        (False, 1),
        (False, 0),
    ]


@pytest.mark.parametrize("attempts", [0, 1])
async def test_an_event_that_waits_for_its_transaction_has_all_of_its_attempts(
    broker: Broker, nc: Client, dsn: str, monkeypatch: pytest.MonkeyPatch, attempts: int
) -> None:
    """At its first attempt and at a later one: the inbox stopped before the database gave it a
    connection, or its row.
    """
    is_waiting = asyncio.Event()

    async def wait(*_: object) -> None:
        is_waiting.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(transactional_strategy.TransactionalStrategy, "_apply", wait)
    await rows(
        dsn,
        "INSERT INTO inbox_messages (message_id, subject, attempts) VALUES (%s, 's', %s)",
        an_id(0),
        attempts,
    )
    async with an_inbox(broker.url, dsn, record, ack_wait=60.0, drain_ms=(100, 200)):
        await publish(nc, [0])
        await is_waiting.wait()
    assert (await row_of(dsn, 0))[:2] == (False, attempts)


async def test_the_stale_row_scan_waits_for_no_event_that_its_service_does_not_serve(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """Rows behind it, which need no handler, had no dead letter as long as it was throttled."""
    service = Changing(lambda _: 429)
    async with a_service(service.app) as url:
        async with an_inbox(broker.url, dsn, url, max_deliver=1, ack_wait=0.5):
            await publish(nc, [0])
            await until(lambda: service.calls, what="held")
        await rows(dsn, "UPDATE inbox_messages SET received_at = now() - interval '2 hours'")
        await rows(
            dsn,
            (
                "INSERT INTO inbox_messages VALUES (%s, 'vibespro.event.gone.v1', now() - "
                "interval '1 hour', NULL, 2)"
            ),
            an_id(7),
        )
        async with an_inbox(
            broker.url,
            dsn,
            url,
            max_deliver=1,
            ack_wait=0.5,
            scan={"sweep_ms": 100, "stranded_after_ms": 1_000},
        ):
            await until(lambda: _are_processed(dsn, 7))
            assert not await _are_processed(dsn, 0)
            service.answer = lambda _: 200
            await until(lambda: _are_processed(dsn, 0))
    assert [letter["message_id"] for letter in await read_dead_letters(nc)] == [an_id(7)]
