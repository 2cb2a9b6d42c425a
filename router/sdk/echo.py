"""A handler that returns its assignment's payload: to try the whole circle, and to measure it."""

from __future__ import annotations

import asyncio
from random import Random

from router.contracts.exec_assignment import ExecAssignment
from router.sdk.step import HANDLER_RAISED, StepResult, build_failure


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
