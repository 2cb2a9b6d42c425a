"""What the strategy for functions tells of its queues, without a database."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from router.core.deferred import Deferred, HoldableDeferred
from router.core.outcome import Done
from router.mailbox.inbox.event import InboxEvent
from router.mailbox.inbox.handling import InboxDelivery
from router.mailbox.inbox.transactional_strategy import TransactionalStrategy
from tests.support.inbox import SUBJECT, a_message, an_id
from tests.support.waiting import until


class HangingHandlers:
    """A pool whose connections are all taken."""

    def __init__(self) -> None:
        self.waiting = 0

    def build_handler_pool(self, **_: object) -> "HangingHandlers":
        return self

    async def __aenter__(self) -> "HangingHandlers":
        return self

    async def __aexit__(self, *_: object) -> None: ...

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        self.waiting += 1
        await asyncio.Event().wait()
        yield


async def handle(connection: object, event: object) -> None: ...


async def test_an_attempt_that_waits_in_both_queues_is_taken_back_once() -> None:
    """Its first try took too long, so it waits for a time of its own, while its batch is still
    under way.
    """
    pool, marked = HangingHandlers(), list[InboxDelivery]()

    def take_back(delivery: InboxDelivery, _: str) -> Deferred[None]:
        delivery.is_taken_back = True
        marked.append(delivery)
        mark: Deferred[None] = Deferred()
        mark.resolve(None)
        return mark

    strategy = TransactionalStrategy(pool, handle, lambda *_: Done(), take_back, lambda _: None)  # type: ignore[arg-type]
    event = InboxEvent(
        an_id(1), SUBJECT, "vibe_created", 1, "2026-11-27T00:00:00Z", None, None, b"{}"
    )
    delivery = InboxDelivery(a_message(), event, HoldableDeferred(), attempts=1)
    strategy.start([delivery])
    delivery.attempts = 2
    strategy.start([delivery])
    running = asyncio.create_task(strategy.run())
    await until(lambda: pool.waiting == 2)
    running.cancel()
    await asyncio.wait({running})
    assert marked == [delivery]
