"""Give each delivery to a handler by a call of its own, as many at once as are in flight.

A call may happen more than once: the handler gets the message id, and answers 409 to one
that it knows (docs/reference/requirements.md#sd-36). In-process handlers do better (`transactional_strategy`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

from router.core.crashpoints import crashpoint
from router.core.errors import BrokerUnavailable, Poison
from router.core.message import Message
from router.mailbox.inbox.event import InboxEvent
from router.mailbox.inbox.failure_text import describe_failure
from router.mailbox.inbox.handling import HandlerAnswer, HandlerResult, InboxDelivery, InboxUnavailable
from router.mailbox.inbox.unserved import UnservedEvents
from router.mailbox.ports import current_message

Conclude = Callable[[InboxDelivery, HandlerAnswer], Awaitable[None]]
Hold = Callable[[InboxDelivery, str], Awaitable[None]]  # the cause; a delivery that may not be held is resolved by it
Alarm = Callable[[Message, BaseException], None]


class RemoteHandler(Protocol):
    """A handler that answers one event. Raises InboxUnavailable when it cannot be called."""

    @property
    def unavailable(self) -> InboxUnavailable | None: ...

    async def answer(self, event: InboxEvent) -> HandlerAnswer: ...


class HttpStrategy:
    """A `HandlerStrategy`; `run` owns its calls. `hold` is told of each delivery that the handler does not judge now."""

    linger_s = 0.005  # capacity comes free call by call, so messages arrive one by one

    def __init__(
        self,
        handler: RemoteHandler,
        conclude: Conclude,
        hold: Hold,
        on_error: Alarm,
        *,
        retry_s: float = 1.0,
        on_trouble: Callable[[str | None], None] = lambda _: None,
    ) -> None:
        self._handler = handler
        self._conclude = conclude
        self._hold = hold
        self._on_error = on_error
        self._unserved = UnservedEvents(retry_s, on_trouble)
        self._tasks: asyncio.TaskGroup | None = None

    @property
    def unavailable(self) -> InboxUnavailable | None:
        return self._handler.unavailable if self._tasks is not None else InboxUnavailable("the inbox is starting")

    @property
    def trouble(self) -> str | None:
        """Why no event is served now."""
        return self._unserved.trouble

    def start(self, deliveries: Sequence[InboxDelivery]) -> None:
        if self._tasks is not None:
            for delivery in deliveries:
                self._tasks.create_task(self._call(delivery))

    async def run(self) -> None:
        """Run until cancelled; then cancel its calls."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                await asyncio.Event().wait()
            finally:
                self._tasks = None

    async def _call(self, delivery: InboxDelivery) -> None:
        try:
            answer = await self._unserved.ask(delivery.event.message_id, partial(self._answer, delivery), partial(self._keep, delivery))
            if answer is not None:
                await self._conclude(delivery, answer)
        except BrokerUnavailable as exc:
            await self._hold(delivery, str(exc))
            delivery.later.resolve(exc)
        finally:
            delivery.later.cancel()  # does nothing where an outcome was set

    async def _keep(self, delivery: InboxDelivery, cause: str) -> bool:
        """Whether the delivery is held until its service serves it."""
        delivery.later.hold()
        await self._hold(delivery, cause)
        return delivery.may_be_held

    async def _answer(self, delivery: InboxDelivery) -> HandlerAnswer:
        current_message.set(delivery.message)  # in this task's context alone
        crashpoint("inbox_handling")
        try:
            return await self._handler.answer(delivery.event)
        except BrokerUnavailable:
            raise
        except Poison as exc:
            return HandlerAnswer(HandlerResult.POISON, describe_failure(exc))
        except Exception as exc:  # whatever a handler raises is a failure of this message
            self._on_error(delivery.message, exc)
            return HandlerAnswer(HandlerResult.TRANSIENT, describe_failure(exc))
