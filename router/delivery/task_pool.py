"""Run waiting handlers in slots: each slot is a task, which goes from one message straight to the next.

    put --> a slot has just become free --> it awaits this handler next: no new task, and no turn of the event loop
        \\-> else --> a new task, which ends when no handler waits for a slot

A task for each message would cost as much as reading the message. For the same reason the subscription's timer checks timeouts.
A slot ends if its handler has changed a context variable, so that the next message does not see it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context

from router.core.errors import BrokerUnavailable
from router.core.message import Message
from router.core.outcome import Outcome

PooledOutcome = Outcome | BrokerUnavailable | None  # None: cancelled, the message is to go back


class PooledCall:
    """One call of a handler, from its promise until its outcome is reported. `task`: the slot's, which has other calls before and after."""

    __slots__ = ("_waiter", "awaited", "is_over", "message", "task")

    def __init__(self, message: Message, awaited: Awaitable[Outcome]) -> None:
        self.message = message
        self.awaited = awaited
        self.task: asyncio.Task[None] | None = None
        self.is_over = False
        self._waiter: asyncio.Future[None] | None = None

    def cancel(self) -> None:
        """End the handler early. A call that is over is left alone, because its slot works on another message."""
        if self.is_over:
            return
        if self.task is not None:
            self.task.cancel()
            return
        if isinstance(self.awaited, Coroutine):
            self.awaited.close()  # never awaited: it has done nothing
        self.end()

    def end(self) -> None:
        self.is_over = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait_until_over(self) -> None:

        if not self.is_over:
            self._waiter = self._waiter or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._waiter)


class TaskPool:
    """For one subscription. `on_outcome` gets each message's outcome; `outcome_of_error` translates an error of a handler."""

    def __init__(
        self,
        count: int,
        timeout_s: float,
        tasks: asyncio.TaskGroup,
        *,
        on_outcome: Callable[[Message, PooledOutcome], None],
        outcome_of_error: Callable[[Message, BaseException], Outcome],
    ) -> None:
        self._count = count
        self._timeout_s = timeout_s
        self._tasks = tasks
        self._on_outcome = on_outcome
        self._outcome_of_error = outcome_of_error
        self._running: dict[asyncio.Task[None], float] = {}  # since when; oldest first
        self._overdue: set[asyncio.Task[None]] = set()  # cancelled because they took too long
        self._free: asyncio.Task[None] | None = None  # the slot that is telling what came, and can go on with another message
        self._next: PooledCall | None = None  # what it goes on with
        self._clean = copy_context()  # what every message begins with
        self._now = asyncio.get_running_loop().time

    @property
    def are_full(self) -> bool:
        return len(self._running) >= self._count

    @property
    def running(self) -> int:
        return len(self._running)

    def put(self, call: PooledCall) -> None:
        """Await what a handler promised."""
        task, self._free = self._free, None
        if task is None:
            task = self._tasks.create_task(self._work(call), context=self._clean.copy())
        else:
            self._next = call
        call.task = task
        self._running[task] = self._now()

    def end_overdue(self) -> None:
        """By the subscription's timer: a timeout of its own would cost each handler more than its slot does."""
        until = self._now() - self._timeout_s
        while self._running and (oldest := next(iter(self._running.items())))[1] < until:
            del self._running[oldest[0]]
            self._overdue.add(oldest[0])
            oldest[0].cancel()

    def _outcome_instead(self, message: Message, exc: BaseException) -> Outcome | None:
        """What an awaited handler raised, as an outcome; None when it was this task that was cancelled."""
        task = asyncio.current_task()
        if task is None or not isinstance(exc, asyncio.CancelledError):
            return self._outcome_of_error(message, exc)
        if self._uncancel_overdue(task):
            return self._outcome_of_error(message, TimeoutError(f"no outcome within {self._timeout_s:g} s"))
        # Not cancelled itself: the handler awaited a task that other code had cancelled.
        return None if task.cancelling() else self._outcome_of_error(message, exc)

    async def _work(self, first: PooledCall) -> None:
        """One slot, from message to message while others wait."""
        call: PooledCall | None = first
        while call is not None:
            on_outcome: PooledOutcome
            try:
                on_outcome = await call.awaited
            except (Exception, asyncio.CancelledError) as exc:  # whatever a handler raises is an outcome
                on_outcome = exc if isinstance(exc, BrokerUnavailable) else self._outcome_instead(call.message, exc)
            self._on_ended(call)
            is_clean = copy_context() == self._clean
            self._free = call.task if is_clean and not self._is_ending(call) else None
            try:
                if is_clean:
                    self._on_outcome(call.message, on_outcome)
                else:
                    self._clean.copy().run(self._on_outcome, call.message, on_outcome)
            finally:
                call.end()
                self._free, self._next, call = None, None, self._next

    def _on_ended(self, call: PooledCall) -> None:
        """Stop watching the call's timeout."""
        if call.task is not None:
            self._running.pop(call.task, None)
            if self._overdue:  # it swallowed its cancellation: the slot's next message must not hear of it
                self._uncancel_overdue(call.task)

    def _is_ending(self, call: PooledCall) -> bool:
        """Whether its task was cancelled, even if the handler swallowed that: such a task is not reused."""
        return call.task is None or call.task.cancelling() > 0

    def _uncancel_overdue(self, task: asyncio.Task[None]) -> bool:
        """Cancelled by `end_overdue`; that is taken back."""
        if task not in self._overdue:
            return False
        self._overdue.discard(task)
        task.uncancel()
        return True
