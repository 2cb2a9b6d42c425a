"""What a worker's handler answers: a StepResult, which becomes the ExecResult
(docs/reference/contracts.md#worker-results). And a handler that returns its payload.

    ok -> success      error -> error      timeout -> timeout      cancelled -> cancelled

A handler may raise instead, in the vocabulary of `router.core.errors`: Transient is an error that
is worth another attempt, Poison one that is hopeless (it goes to `caf.exec.dlq.v1`), TimeoutError a
timeout, and anything else an error. `failures` has three more, which say whose fault it was.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import force_setattr

from router.contracts.exec_assignment import ExecAssignment
from router.contracts.result import MAX_CODE, MAX_LATENCY_MS
from router.core.masking import shorten

OK = "ok"
ERROR = "error"
TIMEOUT = "timeout"
CANCELLED = "cancelled"
# a step's status -> its result's
RESULT_STATUS = {OK: "success", ERROR: "error", TIMEOUT: "timeout", CANCELLED: "cancelled"}

# The specification knows CAF's error codes as 1xxx..5xxx, sent as text, and no more. These are the
# worker's own.
UNREADABLE_CODE = "1001"  # the assignment is none
HANDLER_RAISED = "2001"  # the handler raised
UNSENDABLE = "2002"  # what the handler answered cannot be sent
HOPELESS = "3001"  # the handler says that it can never succeed
DEADLINE_PASSED = "4001"  # the deadline passed
NO_ATTEMPT_LEFT = "5001"  # begun as often as allowed, or accepted by no worker

NOTHING: Mapping[str, object] = MappingProxyType({})


class StepResult(Struct, frozen=True, kw_only=True):
    """One step's outcome. Raises ValueError for another status, or a cost or time that is none.

    `output`: any JSON value, or bytes; it becomes the result's `payload` (JSON only: the protobuf
    has no place for it).
    """

    status: str = OK
    output: object = None
    # of this attempt, in the policy's currency; another number (numpy's, a Decimal, a Fraction)
    # becomes a float
    cost: float = 0.0
    error_code: int | str | None = None  # 1xxx..5xxx; sent as text
    error_message: str | None = None
    metadata: Mapping[str, object] = NOTHING
    # an error that another attempt may mend, as often as the assignment allows
    is_retriable: bool = False
    # with an error_code of a rate limit: when the provider may be asked again
    retry_after_ms: int | None = None

    def __post_init__(self) -> None:
        if self.status not in RESULT_STATUS:
            raise ValueError(f"status should be one of {', '.join(RESULT_STATUS)}")
        if type(self.cost) is not float:
            force_setattr(self, "cost", _to_float(self.cost))
        if not (math.isfinite(self.cost) and self.cost >= 0):
            raise ValueError("cost should be a finite number, 0 or more")
        if self.retry_after_ms is not None and not (
            type(self.retry_after_ms) is int and 0 <= self.retry_after_ms <= MAX_LATENCY_MS
        ):
            raise ValueError(f"retry_after_ms should be a whole number, 0 … {MAX_LATENCY_MS}")


def add_step_fields(body: dict[str, Any], step: StepResult) -> None:
    """Write what a handler told into a result's body. Field by field, because it runs for each
    result.
    """
    body["cost"] = step.cost
    if step.error_code is not None:
        body["error_code"] = str(step.error_code)[:MAX_CODE]
    if step.error_message is not None:
        body["error_message"] = shorten(step.error_message)
    if step.retry_after_ms is not None:
        body["retry_after_ms"] = step.retry_after_ms


Handler = Callable[[ExecAssignment], StepResult | Awaitable[StepResult]]


def build_failure(
    code: str,
    message: str,
    *,
    status: str = ERROR,
    is_retriable: bool = False,
    retry_after_ms: int | None = None,
) -> StepResult:
    """A failure that the worker itself reports."""
    return StepResult(
        status=status,
        error_code=code,
        error_message=message,
        is_retriable=is_retriable,
        retry_after_ms=retry_after_ms,
    )


def _to_float(cost: float) -> float:
    """The same number as JSON can hold it; NaN for what is no number, or too large for one."""
    try:
        return float(cost) if math.isfinite(cost) else math.nan
    except (TypeError, ValueError, OverflowError):
        return math.nan


# -- A handler that returns its assignment's payload: to try the whole circle, and to measure it.


class Echo:
    """Takes `latency_ms` and costs `cost`; a share of `fail_rate` (0..1) of the assignments fails,
    the same ones every time.
    """

    def __init__(
        self, *, latency_ms: float = 0.0, fail_rate: float = 0.0, cost: float = 0.001
    ) -> None:
        self._latency_s = latency_ms / 1000
        self._fail_rate = fail_rate
        self._cost = cost

    async def __call__(self, assignment: ExecAssignment) -> StepResult:
        if self._latency_s:
            await asyncio.sleep(self._latency_s)
        if self._fail_rate and Random(assignment.assignment_id).random() < self._fail_rate:  # noqa: S311 - no secret
            return build_failure(HANDLER_RAISED, "the echo failed, as it was told to")
        return StepResult(output=assignment.raw_payload, cost=self._cost)
