"""Several routers on one durable: a failing message is begun exactly as often as allowed, and its
dead letter says so.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from nats.aio.client import Client

from router.config import Settings
from router.core.message import Message
from router.core.outcome import Handler, Outcome
from router.serve import decide_subscription, subscriptions
from tests.support.router_streams import a_result, headers_of
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import Inboxes, a_request, read_dead_letters, read_metric
from tests.support.waiting import until

MESSAGES, FEW = 40, 4
CONSUMERS = {"decide": decide_subscription, "results": subscriptions, "acks": subscriptions}


class Begun(Counter[int]):
    """How often a handler was begun on each message, in all routers together."""

    def around(self, make: Callable[[Any], Handler], fails: bool) -> Callable[[Any], Handler]:
        def make_counting(context: Any) -> Handler:
            handle = make(context)

            def count(message: Message) -> Outcome:
                self[message.sequence] += 1
                outcome = handle(message)
                if fails:
                    raise RuntimeError("whatever it is asked")
                assert not hasattr(outcome, "__await__")
                return outcome  # type: ignore[return-value]

            return count

        return make_counting


class Fleet(AsyncExitStack):
    """Routers on one server, whose messages all fail, and a client of theirs."""

    def __init__(self, nc: Client, settings: Settings, inboxes: Inboxes) -> None:
        super().__init__()
        self.nc, self.settings, self.inboxes = nc, settings, inboxes
        self.running: list[Running] = []

    async def start(self, count: int) -> None:
        self.running = [
            await self.enter_async_context(a_router(self.settings)) for _ in range(count)
        ]

    async def fail(self, consumer: str, count: int) -> None:
        """Publish, and wait until every message has its dead letter."""
        for number in range(count):
            await self._publish(consumer, number)

        async def all_given_up() -> bool:
            return len(await read_dead_letters(self.nc, self.settings)) >= count

        await until(all_given_up, within_s=20, what="a dead letter for every message")

    async def violations(self) -> float:
        return sum(
            [
                await read_metric(router.ready.http, "router_nats_contract_violations_total")
                for router in self.running
            ]
        )

    async def _publish(self, consumer: str, number: int) -> None:
        """A message whose `trace_id` header is empty: one violation of the header contract."""
        subject = getattr(self.settings, consumer).subject
        if consumer == "decide":
            headers = headers_of(number, trace_id="")
            await self.nc.publish(
                subject, a_request(number), reply=self.inboxes.of(number), headers=headers
            )
            return
        body = a_result(
            number, tenant_id="other", status="accepted" if consumer == "acks" else "success"
        )
        await self.nc.jetstream().publish(
            subject, body, headers=headers_of(number, tenant_id="other", trace_id="")
        )


@pytest.fixture
async def fleet(nc: Client, nats_url: str, prefix: str) -> AsyncIterator[Fleet]:
    names = {f"{consumer}__backoff_ms": "10,20,30" for consumer in CONSUMERS}
    settings = settings_for(nats_url, prefix, tenants_allowed="acme", acks__enabled=True, **names)
    async with Fleet(nc, settings, await Inboxes.under(nc, prefix)) as fleet:
        yield fleet


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Begun:
    begun = Begun()
    for consumer, module in CONSUMERS.items():
        handled = "acknowledgement" if consumer == "acks" else consumer
        name = f"build_{handled}_handler"
        monkeypatch.setattr(
            module, name, begun.around(getattr(module, name), fails=consumer == "decide")
        )
    return begun


@pytest.mark.parametrize("consumer", CONSUMERS)
async def test_three_routers_begin_a_failing_message_exactly_as_often_as_allowed(
    fleet: Fleet, begun: Begun, consumer: str
) -> None:
    """Each message has its limit, its dead letter counts the same, and a request has one answer."""
    limit = getattr(fleet.settings, consumer).max_attempts
    await fleet.start(3)
    await fleet.fail(consumer, MESSAGES)
    assert Counter(begun.values()) == {limit: MESSAGES}
    assert Counter(
        letter["source"]["attempts"] for letter in await read_dead_letters(fleet.nc, fleet.settings)
    ) == {limit: MESSAGES}
    if consumer == "decide":
        await until(lambda: len(fleet.inboxes) >= MESSAGES)
        assert set(fleet.inboxes.counts.values()) == {1}


@pytest.mark.parametrize(
    ("consumer", "routers"), [("decide", 1), ("results", 1), ("acks", 1), ("results", 3)]
)
async def test_a_broken_header_is_one_violation_of_its_message(
    fleet: Fleet, begun: Begun, consumer: str, routers: int
) -> None:
    """However often that is begun: one message that fails ten times does not raise the alert that
    ten messages do.
    """
    await fleet.start(routers)
    await fleet.fail(consumer, FEW)
    assert (await fleet.violations(), min(begun.values()) > 1) == (FEW, True)
