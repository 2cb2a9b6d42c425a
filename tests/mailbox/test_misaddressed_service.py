"""A service that is absent or misaddressed: its inbox waits for it, and no event pays. An event
that it alone refuses, pays.
"""

from collections.abc import Callable

import pytest
from nats.aio.client import Client
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.support.broker import Broker
from tests.support.inbox import (
    a_service,
    an_id,
    an_inbox,
    deaf,
    is_settled,
    nowhere,
    publish,
    read_dead_letters,
    record_acks,
    row_of,
)
from tests.support.waiting import until

Answer = Callable[[str], int]


class Changing:
    """A service whose answer the test changes; `calls` are the events that it was told of."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.calls: list[str] = []
        self.app = Starlette(routes=[Route("/handle", self._handle, methods=["POST"])])

    async def _handle(self, request: Request) -> Response:
        message_id = (await request.json())["message_id"]
        self.calls.append(message_id)
        return Response(status_code=self.answer(message_id))


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 405, 410, 418, 429])
async def test_a_wrong_address_costs_no_event_anything(
    broker: Broker, nc: Client, dsn: str, status: int
) -> None:
    """SD-34, X19: on the only delivery that it has; it waits, shown as not ready, until an operator
    mends the address.
    """
    service = Changing(lambda _: status)
    async with (
        a_service(service.app) as url,
        an_inbox(broker.url, dsn, url, max_deliver=1) as running,
    ):
        await publish(nc, [1, 2])
        await until(lambda: len(service.calls) >= 6, what="asked again and again")
        assert str(status) in (running.inbox.trouble or "")
        service.answer = lambda _: 200
        await until(lambda: is_settled(nc))
        await until(lambda: running.inbox.trouble is None)
    assert (await read_dead_letters(nc), await row_of(dsn, 1), await row_of(dsn, 2)) == (
        [],
        (True, 1, None),
        (True, 1, None),
    )


async def test_an_event_that_the_service_alone_refuses_holds_up_no_other_and_is_a_dead_letter(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """The others show that the service is there: then it is the event, and its deliveries are
    spent.
    """
    service = Changing(lambda message_id: 400 if message_id == an_id(0) else 200)
    async with (
        a_service(service.app) as url,
        an_inbox(broker.url, dsn, url, max_deliver=2, ack_wait=0.5) as running,
    ):
        await publish(nc, [0])
        await until(lambda: running.inbox.trouble, what="alone, it could be the service")
        await publish(nc, range(1, 60))
        await until(lambda: read_dead_letters(nc))
        await until(lambda: is_settled(nc))
        await until(lambda: running.inbox.trouble is None)
    assert [letter["message_id"] for letter in await read_dead_letters(nc)] == [an_id(0)]
    assert {await row_of(dsn, number) for number in range(1, 60)} == {(True, 1, None)}


async def test_a_service_that_throttles_is_waited_for_whatever_the_others_hear(
    broker: Broker, nc: Client, dsn: str
) -> None:
    throttled = {an_id(0)}
    service = Changing(lambda message_id: 429 if message_id in throttled else 200)
    async with a_service(service.app) as url, an_inbox(broker.url, dsn, url, max_deliver=1):
        await publish(nc, range(60))
        await until(
            lambda: len(service.calls) >= 63, what="all are told, and the first three times more"
        )
        throttled.clear()
        await until(lambda: is_settled(nc))
    assert (await read_dead_letters(nc), await row_of(dsn, 0)) == ([], (True, 1, None))


async def test_a_service_that_is_absent_pauses_its_inbox(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """Refused connections spent a delivery each: a quiet stream was empty after forty minutes, and
    its dead letters full.
    """
    async with (
        an_inbox(broker.url, dsn, nowhere(), max_deliver=1, ack_wait=2.0) as running,
        record_acks(broker.url) as heard,
    ):
        await publish(nc, [1, 2])
        await until(lambda: "no connection" in (running.inbox.consumer.health.paused_for or ""))
        await until(lambda: heard.of(1).count("+WPI") >= 3, what="kept longer than its ack wait")
        assert (await read_dead_letters(nc), (await row_of(dsn, 1))[0]) == ([], False)


@pytest.mark.parametrize("status", [404, 429])
async def test_a_restart_while_nothing_is_served_costs_no_event_a_thing(
    broker: Broker, nc: Client, dsn: str, status: int
) -> None:
    """X18: an inbox that stopped on an event's last delivery left it to the dead letters, though no
    service had judged it.
    """
    service = Changing(lambda _: status)
    async with a_service(service.app) as url:
        async with an_inbox(broker.url, dsn, url, max_deliver=1, ack_wait=1.0):
            await publish(nc, [1])
            await until(lambda: len(service.calls) >= 2, what="held")
        assert await row_of(dsn, 1) == (False, 0, f"not served: {status}")
        service.answer = lambda _: 200
        async with an_inbox(broker.url, dsn, url, max_deliver=1, ack_wait=1.0):
            await until(lambda: _is_processed(dsn, 1))
    assert await read_dead_letters(nc) == []


async def test_a_restart_while_the_service_is_absent_costs_no_event_a_thing(
    broker: Broker, nc: Client, dsn: str
) -> None:
    async with an_inbox(broker.url, dsn, nowhere(), max_deliver=1, ack_wait=1.0) as running:
        await publish(nc, [1])
        await until(lambda: "no connection" in (running.inbox.consumer.health.paused_for or ""))
    service = Changing(lambda _: 200)
    async with (
        a_service(service.app) as url,
        an_inbox(broker.url, dsn, url, max_deliver=1, ack_wait=1.0),
    ):
        await until(lambda: _is_processed(dsn, 1))
    assert await read_dead_letters(nc) == []


async def test_an_event_that_a_recovery_hands_to_its_service_and_fails_there_is_a_dead_letter(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """It has had its last delivery, so this answer is the last."""
    service = Changing(lambda _: 404)
    async with a_service(service.app) as url:
        async with an_inbox(broker.url, dsn, url, max_deliver=1, ack_wait=1.0):
            await publish(nc, [1])
            await until(lambda: len(service.calls) >= 2, what="held")
        service.answer = lambda _: 500
        async with an_inbox(broker.url, dsn, url, max_deliver=1, ack_wait=1.0):
            await until(lambda: read_dead_letters(nc))
            await until(lambda: _is_processed(dsn, 1), what="its row is marked")
    assert [(letter["message_id"], letter["reason"]) for letter in await read_dead_letters(nc)] == [
        (an_id(1), "maxdeliver_exhausted")
    ]
    assert await row_of(dsn, 1) == (True, 1, "maxdeliver_exhausted: 500")


async def test_an_event_that_is_held_after_its_last_delivery_holds_up_no_other(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """The recovery had one slot: whatever was stranded behind an event that waits for its service
    waited with it.
    """
    service = Changing(lambda _: 404)
    async with a_service(service.app) as url:
        async with an_inbox(broker.url, dsn, url, max_deliver=1, ack_wait=1.0):
            await publish(nc, range(4))
            await until(lambda: len(set(service.calls)) == 4, what="each is held")
            await until(lambda: len(service.calls) >= 8)
        throttled = set(map(an_id, range(3)))
        service.answer = lambda message_id: 429 if message_id in throttled else 200
        async with an_inbox(broker.url, dsn, url, max_deliver=1, ack_wait=1.0):
            await until(lambda: _is_processed(dsn, 3))
            assert [(await row_of(dsn, number))[0] for number in range(3)] == [False] * 3
            throttled.clear()
            await until(lambda: _is_processed(dsn, 0))
    assert await read_dead_letters(nc) == []


async def _is_processed(dsn: str, number: int) -> bool:
    row = await row_of(dsn, number)
    return bool(row and row[0])


async def test_an_address_that_answers_no_connection_is_absent_too(
    broker: Broker, nc: Client, dsn: str
) -> None:
    async with (
        deaf() as url,
        an_inbox(broker.url, dsn, url, max_deliver=1, timeout_s=3, ack_wait=30.0) as running,
    ):
        await publish(nc, [1])
        await until(lambda: "no connection" in (running.inbox.consumer.health.paused_for or ""))
        # an inbox that stops hands it back, and this delivery is its only one
        assert (await row_of(dsn, 1))[0] is False
