"""Give each delivery to a handler by a call of its own, as many at once as are in flight.

A call may happen more than once: the handler gets the message id, and answers 409 to one that it
knows (docs/reference/requirements.md#sd-36). In-process handlers do better
(`transactional_strategy`). `UnservedEvents` stands first: it holds what the service does not serve
now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

from router.core.clock import delay_after
from router.core.crashpoints import crashpoint
from router.core.errors import BrokerUnavailable, Poison
from router.core.message import Message
from router.mailbox.inbox.dead_letters import describe_failure
from router.mailbox.inbox.event import InboxEvent
from router.mailbox.inbox.handling import (
    Blame,
    HandlerAnswer,
    HandlerResult,
    InboxDelivery,
    InboxUnavailable,
)
from router.mailbox.ports import current_message

# -- The calls.

Conclude = Callable[[InboxDelivery, HandlerAnswer], Awaitable[None]]
# the cause; a delivery that may not be held is resolved by it
Hold = Callable[[InboxDelivery, str], Awaitable[None]]
Alarm = Callable[[Message, BaseException], None]


class RemoteHandler(Protocol):
    """A handler that answers one event. Raises InboxUnavailable when it cannot be called."""

    @property
    def unavailable(self) -> InboxUnavailable | None: ...

    async def answer(self, event: InboxEvent) -> HandlerAnswer: ...


class HttpStrategy:
    """A `HandlerStrategy`; `run` owns its calls. `hold` is told of each delivery that the handler
    does not judge now.
    """

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
        return (
            self._handler.unavailable
            if self._tasks is not None
            else InboxUnavailable("the inbox is starting")
        )

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
            answer = await self._unserved.ask(
                delivery.event.message_id,
                partial(self._answer, delivery),
                partial(self._keep, delivery),
            )
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


# -- Events that their service does not serve: held and asked about again, while others show
# whose fault it is.
#
#     404, 302, 400 …   ──> held, asked again after 1, 2, 4 … times `retry_s`; no delivery is spent
# others are served in between       it is this event: a failure, at this delivery and the next ones
# none is                            it is the service: held until an operator mends the address,
# and readiness says so
#     429               ──> held: a service that throttles says nothing of the event
#
# An event that is held takes one of the inbox's slots and delays no other event: a consumer
# that paused for it would never learn that the others are served.

SERVED_SINCE = 10  # so many events served since one was not served first: the service is there
UNSERVED_IN_A_ROW = 3  # answers that serve no event, and it is told as trouble
MAX_REFUSED = 1000  # ids of events that were not served; the oldest is forgotten first
WAITS = (1, 2, 4, 8, 16, 32)  # in `retry_s`


class UnservedEvents:
    """Of one inbox. `on_trouble` gets the cause when the service serves no event any more, and None
    when it serves again.
    """

    def __init__(self, retry_s: float, on_trouble: Callable[[str | None], None]) -> None:
        self._waits = tuple(times * retry_s for times in WAITS)
        self._on_trouble = on_trouble
        self._served = 0
        # by message id: how many events had been served when it was refused first
        self._refused: dict[str, int] = {}
        self._in_a_row = 0
        self._back = asyncio.Event()
        self.trouble: str | None = None  # why no event is served

    async def ask(
        self,
        message_id: str,
        ask: Callable[[], Awaitable[HandlerAnswer]],
        hold: Callable[[str], Awaitable[bool]],
    ) -> HandlerAnswer | None:
        """Return the answer that counts. Before each wait for one `hold` gets the cause: False ends
        the waiting, and the result is None.

        An error of `ask` passes.
        """
        times = 0
        while True:
            answer = await ask()
            if answer.blame is Blame.EVENT:
                self._note_served(message_id, answer)
                return answer
            if answer.blame is Blame.UNKNOWN and self._is_at_fault(message_id):
                return answer
            self._note_unserved(answer)
            times += 1
            if not await hold(f"not served: {answer.detail}"):
                return None
            await self._wait(delay_after(times, self._waits))

    def _is_at_fault(self, message_id: str) -> bool:
        """Whether enough others were served since the event was first refused, now or at an earlier
        delivery.
        """
        first = self._refused.setdefault(message_id, self._served)
        if len(self._refused) > MAX_REFUSED:
            del self._refused[next(iter(self._refused))]
        return self._served - first >= SERVED_SINCE and self.trouble is None

    def _note_served(self, message_id: str, answer: HandlerAnswer) -> None:
        if not answer.is_useful:
            return
        self._refused.pop(message_id, None)
        self._served += 1
        self._in_a_row = 0
        if self.trouble is not None:
            self.trouble = None
            self._back.set()
            self._on_trouble(None)

    def _note_unserved(self, answer: HandlerAnswer) -> None:
        self._in_a_row += 1
        if self._in_a_row == UNSERVED_IN_A_ROW:
            self._back.clear()
        if self._in_a_row >= UNSERVED_IN_A_ROW and self.trouble is None:
            self.trouble = f"the handler answers {answer.detail}: is inbox.handler.url its address?"
            self._on_trouble(self.trouble)

    async def _wait(self, seconds: float) -> None:
        """Wait so long, or until the service serves again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await (self._back.wait() if self.trouble is not None else asyncio.Event().wait())
