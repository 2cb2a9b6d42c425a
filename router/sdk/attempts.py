"""A handler's attempts at one assignment: within its deadline, as often as it allows
(`options.deadline_ms`, `options.retry`).

    the handler answers, or raises -> a StepResult        retriable, and attempts are left ->
                                                          backoff, again
    the deadline passes            -> a timeout           Poison                           -> an
                                                          error, and hopeless
    RequestRefused, RateLimited    -> an error, at once   ProviderFailed, Transient        -> an
                                                          error, retriable

An async handler runs on the loop and is cancelled at its deadline; one that answers without waiting
costs no timer. A plain function runs in a thread, so that heartbeats and deadlines go on. A thread
cannot be stopped: past its deadline a function keeps its thread until it returns. An assignment
begins, and so does its deadline, when a thread is free for it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from sys import float_info
from types import CoroutineType

from msgspec import Struct
from msgspec.structs import replace

from router.contracts.exec_assignment import ExecAssignment
from router.core.clock import steady
from router.core.deferred import RemainingSteps
from router.core.errors import Poison, Transient
from router.core.masking import shorten
from router.core.user_functions import contain_exit, is_async_callable, text_of
from router.process.observability import LogRateLimit, events, logs
from router.sdk.failures import ProviderFailed, RateLimited, RequestRefused
from router.sdk.step import (
    CANCELLED,
    DEADLINE_PASSED,
    ERROR,
    HANDLER_RAISED,
    HOPELESS,
    TIMEOUT,
    UNSENDABLE,
    Handler,
    StepResult,
    build_failure,
)
from router.sdk.threads import DaemonThreads

log = logs.logger(__name__)


class NoThread(Exception):
    """The worker stops before another attempt has a thread: another worker makes the attempt."""


class AttemptsResult(Struct, frozen=True):
    """The result of all attempts; the step's cost is their sum."""

    step: StepResult
    attempts: int
    latency_ms: int
    is_hopeless: bool = False


class Attempts:
    """Runs one handler; `slots` threads for one that is a plain function."""

    def __init__(self, handler: Handler, slots: int) -> None:
        self._handler = handler
        self._slots = slots
        self._threads = (
            None if is_async_callable(handler) else DaemonThreads(slots, "router-worker")
        )
        self._lines = LogRateLimit(every_s=60.0)

    @property
    def needs_thread(self) -> bool:
        """Whether `acquire_thread` comes before `begin`."""
        return self._threads is not None

    async def acquire_thread(self) -> bool:
        """Wait until a thread is free; then `begin` at once. False: the worker stops, and none is
        free.
        """
        assert self._threads is not None  # what `needs_thread` says  # noqa: S101
        if self._threads.are_busy and self._lines.allow("threads"):
            name = getattr(self._handler, "__qualname__", type(self._handler).__name__)
            log.warning(
                events.WORKER_THREADS_HELD,
                handler=name,
                held=self._threads.held,
                threads=self._slots,
            )
        return await self._threads.acquire()

    def begin(self, assignment: ExecAssignment) -> AttemptsResult | Awaitable[AttemptsResult]:
        """Make as many attempts as are allowed and needed. The caller awaits what is no result yet,
        in the same task.

        The awaitable raises NoThread if the worker stops before another attempt has a thread.
        """
        begun = steady()
        answer = self._call_handler(assignment)
        if isinstance(answer, StepResult) and not (answer.is_retriable and answer.status == ERROR):
            return AttemptsResult(answer, 1, round((steady() - begun) * 1000))
        return self._go_on(assignment, begun, answer)

    async def _go_on(
        self, assignment: ExecAssignment, begun: float, first: object
    ) -> AttemptsResult:
        totals, is_hopeless = _AttemptTotals(), False
        try:
            async with asyncio.timeout_at(begun + assignment.deadline_ms / 1000):
                step = await self._repeat(assignment, totals, first)
        except TimeoutError:
            step = build_failure(
                DEADLINE_PASSED,
                f"not done within its deadline of {assignment.deadline_ms} ms",
                status=TIMEOUT,
            )
        except Poison as exc:
            step, is_hopeless = build_failure(HOPELESS, _describe(exc)), True
        step = replace(step, cost=min(totals.cost + step.cost, float_info.max))
        return AttemptsResult(step, totals.attempts, round((steady() - begun) * 1000), is_hopeless)

    def stop_waiting(self) -> None:
        """No assignment waits for a thread from now on."""
        if self._threads is not None:
            self._threads.stop_waiting()

    def close(self) -> None:
        if self._threads is not None:
            self._threads.close()

    async def _repeat(
        self, assignment: ExecAssignment, totals: _AttemptTotals, answer: object
    ) -> StepResult:
        while True:
            totals.attempts += 1
            step = await self._read_answer(assignment, answer)
            if (
                not (step.status == ERROR and step.is_retriable)
                or totals.attempts >= assignment.max_attempts
            ):
                return step
            totals.cost += step.cost
            await asyncio.sleep(assignment.backoff_ms / 1000)
            answer = self._call_again(assignment)

    def _call_again(self, assignment: ExecAssignment) -> object:
        return (
            self._call_handler(assignment)
            if self._threads is None
            else self._wait_and_call(self._threads, assignment)
        )

    async def _wait_and_call(self, threads: DaemonThreads, assignment: ExecAssignment) -> object:
        """Another attempt: its thread was free in the meantime, for others. Raises NoThread."""
        if not await threads.acquire():
            raise NoThread
        return await threads.call(self._handler, assignment)

    def _call_handler(self, assignment: ExecAssignment) -> object:
        """The handler's answer, or an awaitable of it, which raises what the handler raised."""
        try:
            if self._threads is not None:
                return self._threads.call(self._handler, assignment)
            with contain_exit:
                answer = self._handler(assignment)
                if not isinstance(answer, CoroutineType) and not inspect.isawaitable(answer):
                    return answer
                steps = answer.__await__()
                return RemainingSteps(steps, next(steps))
        except StopIteration as ended:  # it never waited
            return ended.value
        except (Exception, asyncio.CancelledError) as exc:  # the author's code may raise anything
            return _raise(exc)

    async def _read_answer(self, assignment: ExecAssignment, answer: object) -> StepResult:
        try:
            if inspect.isawaitable(answer):
                with contain_exit:
                    answer = await answer
                    # a plain function may return one
                    if self._threads is not None and inspect.isawaitable(answer):
                        answer = await answer
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise  # by the deadline, or by a drain: not by the handler
            return build_failure(HANDLER_RAISED, "the handler was cancelled", status=CANCELLED)
        except (Poison, NoThread):
            raise
        except ProviderFailed as exc:
            return build_failure(exc.code, _describe(exc), is_retriable=True)
        except RequestRefused as exc:
            return build_failure(exc.code, _describe(exc))
        except RateLimited as exc:
            return build_failure(exc.code, _describe(exc), retry_after_ms=exc.retry_after_ms)
        except Transient as exc:
            return build_failure(HANDLER_RAISED, _describe(exc), is_retriable=True)
        except TimeoutError as exc:
            return build_failure(DEADLINE_PASSED, _describe(exc), status=TIMEOUT)
        except Exception as exc:  # the author's code may raise anything
            log.warning(
                events.HANDLER_FAILED,
                assignment_id=assignment.assignment_id,
                error=type(exc).__name__,
                exc_info=exc,
            )
            return build_failure(HANDLER_RAISED, _describe(exc))
        if not isinstance(answer, StepResult):
            return build_failure(
                UNSENDABLE, f"the handler returned {type(answer).__name__}, not a StepResult"
            )
        return answer


class _AttemptTotals:
    """The sums of earlier attempts, known also when the deadline cuts the last one off."""

    def __init__(self) -> None:
        self.attempts = 0
        self.cost = 0.0


def _describe(exc: Exception) -> str:
    return shorten(text_of(exc)) or type(exc).__name__


async def _raise(exc: BaseException) -> None:
    raise exc
