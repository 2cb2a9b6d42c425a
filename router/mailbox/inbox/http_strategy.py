"""Each arrival told to an `EventHandler` by a call of its own, as many at once as delivery has in hand.

What a call does to the outside is at least once for everybody: the handler is told the message id, and answers 409 to one
that it knows (docs/requirements.md#sd-36). In-process handlers do better (`transactional_strategy`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

from router.crashpoints import crashpoint
from router.errors import BrokerUnavailable, Poison
from router.mailbox.inbox.event import InboxEvent
from router.mailbox.inbox.failure_text import describe_failure
from router.mailbox.inbox.handling import HandlerAnswer, HandlerResult, InboxDelivery, InboxUnavailable
from router.mailbox.inbox.unserved import UnservedEvents
from router.mailbox.ports import current_message
from router.message import Message

Conclude = Callable[[InboxDelivery, HandlerAnswer], Awaitable[None]]
Alarm = Callable[[Message, BaseException], None]


class RemoteHandler(Protocol):
    """A handler that is asked about one event. Raises Away when it cannot be asked."""

    @property
    def unavailable(self) -> InboxUnavailable | None: ...

    async def answer(self, event: InboxEvent) -> HandlerAnswer: ...


class HttpStrategy:
    """A `Treatment`; `run` holds its calls."""

    linger_s = 0.005  # room comes free call by call: messages do, too

    def __init__(
        self,
        handler: RemoteHandler,
        conclude: Conclude,
        on_error: Alarm,
        *,
        retry_s: float = 1.0,
        on_trouble: Callable[[str | None], None] = lambda _: None,
    ) -> None:
        self._handler = handler
        self._conclude = conclude
        self._on_error = on_error
        self._unserved = UnservedEvents(retry_s, on_trouble)
        self._tasks: asyncio.TaskGroup | None = None

    @property
    def unavailable(self) -> InboxUnavailable | None:
        return self._handler.unavailable if self._tasks is not None else InboxUnavailable("the inbox is starting")

    @property
    def trouble(self) -> str | None:
        """Why no event is served at present."""
        return self._unserved.trouble

    def start(self, deliveries: Sequence[InboxDelivery]) -> None:
        if self._tasks is not None:
            for delivery in deliveries:
                self._tasks.create_task(self._call(delivery))

    async def run(self) -> None:
        """Until cancelled; then its calls are, too."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                await asyncio.Event().wait()
            finally:
                self._tasks = None

    async def _call(self, delivery: InboxDelivery) -> None:
        try:
            answer = await self._unserved.ask(delivery.event.message_id, partial(self._answer, delivery))
            await self._conclude(delivery, answer)
        except BrokerUnavailable as exc:
            delivery.later.resolve(exc)
        finally:
            delivery.later.cancel()  # says nothing where something was said

    async def _answer(self, delivery: InboxDelivery) -> HandlerAnswer:
        current_message.set(delivery.message)  # this task's own
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
