"""The tasks of a subscription. Waiting handlers run in slots: each slot is a task, which goes from
one message straight to the next.

    put --> the queue --> a task begins one call after the other, until one waits: that call keeps
    the task as its slot,
                          and other tasks go on with the queue, as many as calls have waited in a
                          row

So a handler that ends without waiting costs no task: a task for each message would cost as much as
reading the message. For the same reason the subscription's timer checks timeouts. A slot ends if
its handler has changed a context variable, so that the next message does not see it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context
from typing import Any

from router.core.clock import steady
from router.core.deferred import RemainingSteps
from router.core.errors import BrokerUnavailable
from router.core.message import Message
from router.core.outcome import Outcome

AT_ONCE_S = 0.002  # a handler that takes longer holds the loop, though it does not wait

PooledOutcome = Outcome | BrokerUnavailable | None  # None: cancelled, the message is to go back


class PooledCall:
    """One call of a handler, from its promise until its outcome is reported. `task`: the slot's,
    which has other calls before and after.
    """

    __slots__ = ("_waiter", "awaited", "is_over", "message", "task")

    def __init__(self, message: Message, awaited: Awaitable[Outcome]) -> None:
        self.message = message
        self.awaited = awaited
        self.task: asyncio.Task[None] | None = None
        self.is_over = False
        self._waiter: asyncio.Future[None] | None = None

    def cancel(self) -> None:
        """End the handler early. A call that is over is left alone, because its slot works on
        another message.
        """
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
    """For one subscription. `on_outcome` gets each message's outcome; `outcome_of_error` translates
    an error of a handler.
    """

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
        self._queue: deque[PooledCall] = deque()  # not begun
        self._beginner: asyncio.Task[None] | None = None  # the task that begins what is queued
        self._parked: asyncio.Future[None] | None = None  # it waits for a call
        # tasks that are created and have not run yet; each begins calls if no other task does
        self._starting = 0
        self._waited = 0  # calls in a row that waited
        self._is_closed = False
        # calls that wait: since when; oldest first
        self._running: dict[asyncio.Task[None], float] = {}
        # cancelled because the handler took too long
        self._overdue: set[asyncio.Task[None]] = set()
        self.ended_at_once = 0  # handlers in a row that neither waited nor held the loop
        self._clean = copy_context()  # what every message begins with
        self._now = steady

    @property
    def are_full(self) -> bool:
        return len(self._running) + len(self._queue) >= self._count

    @property
    def running(self) -> int:
        return len(self._running) + len(self._queue)

    def put(self, call: PooledCall) -> None:
        """Await what a handler promised."""
        self._queue.append(call)
        if self._parked is not None:
            self._wake_beginner()
        elif self._beginner is None and not self._starting:
            self._start_beginners(1)

    def close(self) -> None:
        """End the task that waits for calls; what is put afterwards is still handled."""
        self._is_closed = True
        if self._parked is not None:
            self._wake_beginner()

    def _wake_beginner(self) -> None:
        if self._parked is not None and not self._parked.done():
            self._parked.set_result(None)
        self._parked = None

    def _start_beginners(self, count: int) -> None:
        self._starting += count
        for _ in range(count):
            self._tasks.create_task(self._work(), context=self._clean.copy())

    def end_overdue(self) -> None:
        """By the subscription's timer: a timeout of its own would cost each handler more than its
        slot does.
        """
        until = self._now() - self._timeout_s
        while self._running and (oldest := next(iter(self._running.items())))[1] < until:
            del self._running[oldest[0]]
            self._overdue.add(oldest[0])
            oldest[0].cancel()

    def _outcome_instead(self, message: Message, exc: BaseException) -> Outcome | None:
        """What an awaited handler raised, as an outcome; None when it was this task that was
        cancelled.
        """
        task = asyncio.current_task()
        if task is None or not isinstance(exc, asyncio.CancelledError):
            return self._outcome_of_error(message, exc)
        if self._uncancel_overdue(task):
            return self._outcome_of_error(
                message, TimeoutError(f"no outcome within {self._timeout_s:g} s")
            )
        # Not cancelled itself: the handler awaited a task that other code had cancelled.
        return None if task.cancelling() else self._outcome_of_error(message, exc)

    async def _work(self) -> None:
        """Begin calls as they are put. One that waits keeps this task: another one begins calls
        then, and this one ends with it.
        """
        task = asyncio.current_task()
        assert task is not None  # a coroutine is run by one  # noqa: S101
        self._starting -= 1
        while await self._begin_queued(task) and not self._is_closed:
            self._parked = asyncio.get_running_loop().create_future()
            # a new task, and the turn of the loop that its end takes, would cost three times as
            # much
            await self._parked
        self._leave_queue(task)

    async def _begin_queued(self, task: asyncio.Task[None]) -> bool:
        """Whether this task begins what is put later, too."""
        begun, ended_before = self._now(), self.ended_at_once
        while self._queue and self._take_queue(task):
            call = self._queue.popleft()
            # over: cancelled before it began
            on_outcome = await self._handle(call, task) if not call.is_over else None
            # not reused, even if the handler swallowed its cancellation
            if copy_context() != self._clean or task.cancelling():
                self._leave_queue(task)
                self._clean.copy().run(self._report, call, on_outcome)
                return False
            self._take_queue(task)  # what is put meanwhile needs no other task
            self._report(call, on_outcome)
        # one clock for all of them
        if self._now() - begun > AT_ONCE_S * max(1, self.ended_at_once - ended_before):
            self.ended_at_once = 0
        return self._beginner is task

    def _take_queue(self, task: asyncio.Task[None]) -> bool:
        """Begin what is queued by this task, if no other one does. Returns whether it does."""
        if self._beginner is None:
            self._beginner = task
        return self._beginner is task

    async def _handle(self, call: PooledCall, task: asyncio.Task[None]) -> PooledOutcome:
        call.task = task
        try:
            steps = call.awaited.__await__()
            try:
                waits_for = next(steps)
            except StopIteration as ended:
                self.ended_at_once += 1
                self._waited = 0
                outcome: Outcome = ended.value
                return outcome
            self.ended_at_once = 0
            self._waited += 1
            self._running[task] = self._now()
            self._leave_queue(task)
            try:
                return await RemainingSteps(steps, waits_for)
            finally:
                self._running.pop(task, None)
        except (Exception, asyncio.CancelledError) as exc:
            # whatever a handler raises is an outcome
            return (
                exc
                if isinstance(exc, BrokerUnavailable)
                else self._outcome_instead(call.message, exc)
            )
        finally:
            # it swallowed its cancellation: the slot's next message must not hear of it
            if self._overdue:
                self._uncancel_overdue(task)

    def _leave_queue(self, task: asyncio.Task[None]) -> None:
        """This task is taken: others begin what is queued. One alone would take a turn of the loop,
        and a write, for each call.
        """
        if self._beginner is task:
            self._beginner = None
            wanted = min(len(self._queue), max(1, self._waited))
            if wanted > self._starting:
                self._start_beginners(wanted - self._starting)

    def _report(self, call: PooledCall, outcome: PooledOutcome) -> None:
        try:
            self._on_outcome(call.message, outcome)
        finally:
            call.end()

    def _uncancel_overdue(self, task: asyncio.Task[None]) -> bool:
        """Cancelled by `end_overdue`; that is taken back."""
        if task not in self._overdue:
            return False
        self._overdue.discard(task)
        task.uncancel()
        return True


# -- The background tasks of one subscription; a drain cancels them.


Work = Coroutine[Any, Any, None]


class BackgroundTasks:
    """They run in the consumer's task group."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._under_way: set[asyncio.Task[None]] = set()
        self._named: set[str] = set()

    def start(self, work: Work) -> None:
        task = self._tasks.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    def start_once(self, name: str, work: Callable[[], Work]) -> None:
        """Start it, unless the task of this name still runs."""
        if name not in self._named:
            self._named.add(name)
            self.start(self._run(name, work))

    def start_uncancelled(self, work: Work) -> None:
        """Start it; a drain waits for it."""
        self._tasks.create_task(work)

    def end(self) -> None:
        """Cancel all but those that a drain waits for."""
        for task in self._under_way:
            task.cancel()

    async def _run(self, name: str, work: Callable[[], Work]) -> None:
        try:
            await work()
        finally:
            self._named.discard(name)
