"""A provider and an extension for tests: they answer what they are told, and keep what they were
asked.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from router.contracts.exec_assignment import ExecAssignment
from router.sdk.extension import Extension
from router.sdk.step import StepResult

MAX_KEPT = 10_000  # the oldest go first


class FakeProvider:
    """A worker's handler, for `EmbeddedRouter.start_worker`.

    `output`: any JSON value, or a StepResult. `cost`: of each attempt. `fails`: raised instead, as
    a worker's function raises it (`router.core.errors`). `latency_s`: seconds that each answer
    takes.
    """

    def __init__(
        self,
        output: object = "",
        *,
        cost: float = 0.0,
        fails: Exception | None = None,
        latency_s: float = 0.0,
    ) -> None:
        self._step = (
            output if isinstance(output, StepResult) else StepResult(output=output, cost=cost)
        )
        self._fails = fails
        self._latency_s = latency_s
        self.assignments: deque[ExecAssignment] = deque(maxlen=MAX_KEPT)

    async def __call__(self, assignment: ExecAssignment) -> StepResult:
        self.assignments.append(assignment)
        if self._latency_s:
            await asyncio.sleep(self._latency_s)
        if self._fails is not None:
            raise self._fails
        return self._step


class FakeExtension(Extension):
    """An extension, for `EmbeddedRouter.serve_extensions`. `kind`: pre, validator, post or
    provider.

    `answer`: what an author's function would return, or an exception that it would raise.
    """

    def __init__(
        self, kind: str, extension_id: str, answer: object = None, *, version: str = "v1"
    ) -> None:
        self._answer = answer
        self.requests: deque[Any] = deque(maxlen=MAX_KEPT)  # Request, of a provider Invocation

        def answer_request(request: Any) -> Any:
            self.requests.append(request)
            if isinstance(self._answer, Exception):
                raise self._answer
            return self._answer

        super().__init__(
            answer_request, kind, extension_id, version, blocking=False, timeout_ms=None, retry=None
        )
