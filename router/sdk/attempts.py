"""A handler's attempts at one assignment: within its deadline, as often as it allows (`options.deadline_ms`, `options.retry`).

    the handler answers, or raises -> a StepResult        retriable, and attempts are left -> backoff, again
    the deadline passes            -> a timeout           Poison                           -> an error, and hopeless

An async handler runs on the loop and is cancelled at its deadline. A plain function runs in a thread, so that heartbeats
and deadlines go on; a thread cannot be stopped, so past its deadline it keeps its place in the pool until it returns.
"""

from __future__ import annotations

import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct
from msgspec.structs import replace

from router.contracts.exec_assignment import ExecAssignment
from router.core.clock import steady
from router.core.errors import Poison, Transient
from router.core.masking import shorten
from router.operations.observability import events, logs
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

log = logs.logger(__name__)


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
        is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004
        self._pool = None if is_async else ThreadPoolExecutor(slots, thread_name_prefix="router-worker")

    async def run(self, assignment: ExecAssignment) -> AttemptsResult:
        """Make as many attempts as are allowed and needed."""
        begun, totals, is_hopeless = steady(), _AttemptTotals(), False
        try:
            async with asyncio.timeout(assignment.deadline_ms / 1000):
                step = await self._repeat(assignment, totals)
        except TimeoutError:
            step = build_failure(DEADLINE_PASSED, f"not done within its deadline of {assignment.deadline_ms} ms", status=TIMEOUT)
        except Poison as exc:
            step, is_hopeless = build_failure(HOPELESS, _describe(exc)), True
        latency_ms = round((steady() - begun) * 1000)
        return AttemptsResult(replace(step, cost=totals.cost + step.cost), totals.attempts, latency_ms, is_hopeless)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def _repeat(self, assignment: ExecAssignment, totals: _AttemptTotals) -> StepResult:
        while True:
            totals.attempts += 1
            step = await self._run_once(assignment)
            if not (step.status == ERROR and step.is_retriable) or totals.attempts >= assignment.max_attempts:
                return step
            totals.cost += step.cost
            await asyncio.sleep(assignment.backoff_ms / 1000)

    async def _run_once(self, assignment: ExecAssignment) -> StepResult:
        try:
            return await self._answer(assignment)
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise  # by the deadline, or by a drain: not by the handler
            return build_failure(HANDLER_RAISED, "the handler was cancelled", status=CANCELLED)
        except Poison:
            raise
        except Transient as exc:
            return build_failure(HANDLER_RAISED, _describe(exc), is_retriable=True)
        except TimeoutError as exc:
            return build_failure(DEADLINE_PASSED, _describe(exc), status=TIMEOUT)
        except Exception as exc:  # the author's code may raise anything
            log.warning(events.HANDLER_FAILED, assignment_id=assignment.assignment_id, error=repr(exc), exc_info=exc)
            return build_failure(HANDLER_RAISED, _describe(exc))

    async def _answer(self, assignment: ExecAssignment) -> StepResult:
        if self._pool is None:
            answer = self._handler(assignment)
        else:
            answer = await asyncio.get_running_loop().run_in_executor(self._pool, self._handler, assignment)
        step: object = await answer if inspect.isawaitable(answer) else answer  # a user's function may return anything
        if not isinstance(step, StepResult):
            return build_failure(UNSENDABLE, f"the handler returned {type(step).__name__}, not a StepResult")
        return step


class _AttemptTotals:
    """The sums of earlier attempts, known also when the deadline cuts the last one off."""

    def __init__(self) -> None:
        self.attempts = 0
        self.cost = 0.0


def _describe(exc: Exception) -> str:
    return shorten(str(exc)) or type(exc).__name__
