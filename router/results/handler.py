"""A worker's result in, an outcome out: read, correlate, meter. Pure but for its own memory of what was told before.

    not readable, incomplete, forged      -> Dead: a dead letter
    a tenant that is not served here      -> Retry: it may be allowed soon; the last attempt leaves a letter
    any outcome of any status             -> Done with its usage event, stored before the acknowledgement
    its assignment is unknown             -> the same, and nothing is learned from it; or marked, or refused, by setting

A result whose assignment is at hand stays on the synchronous path; a miss is a future (`assignments.correlate`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

from msgspec import Struct

from router.assignments import KnownAssignments, contradiction, correlated
from router.contracts.assignment import Assignment, assignment_id_of
from router.contracts.headers import Violation
from router.contracts.malformed import CORRELATION_FIELDS_INVALID, STAGE_CORRELATION, STAGE_TENANT
from router.contracts.result import ExecResult, read_result
from router.contracts.usage import SUBJECT, UsageEvent, identity
from router.contracts.worker import DEFAULT_LIMITS, WorkerMessageLimits
from router.message import Message
from router.outcome import Dead, Done, Fault, Outcome, Retry
from router.results.duplicates import Recent, Seen
from router.results.lessons import Lessons, ProviderFigures
from router.usage import metered, usage_effect

FOREIGN_TENANT = Retry(Fault("tenant_forbidden", "This tenant is not served here", "tenant_id", STAGE_TENANT))
UNKNOWN = Fault(CORRELATION_FIELDS_INVALID, "The assignment is not known here", "assignment_id", STAGE_CORRELATION)
NOTHING_TO_STORE = Done()

Uncorrelated = Literal["accept", "mark", "refuse"]


class ResultsMeter(Protocol):
    """What the app counts of results. Called on the loop, so it must be cheap."""

    def violated(self, message: Message, violations: tuple[Violation, ...]) -> None: ...

    def outcome(self, status: str, provider_id: str, *, is_known: bool) -> None:
        """An outcome that this instance had not heard of: `router_results_total{status, provider}`.

        `is_known`: an assignment names the provider; else the worker alone does, and its word is no label of its own."""

    def uncorrelated(self) -> None:
        """Its assignment is unknown; it was taken all the same."""

    def forged(self) -> None:
        """It contradicts the assignment that it names."""

    def duplicate(self, is_conflict: bool) -> None:
        """Another message told this outcome before, with the same content or not."""


class ResultRules(Struct, frozen=True, kw_only=True):
    """Settings of the handler."""

    limits: WorkerMessageLimits = DEFAULT_LIMITS
    tenants_allowed: frozenset[str] = frozenset()  # empty = all
    usage_subject: str | None = SUBJECT  # None: ENABLE_USAGE_PUBLISH=false
    uncorrelated: Uncorrelated = "accept"  # what becomes of the usage of an unknown assignment


class ResultsHandler:
    """Meters what workers report. Called by delivery with one message at a time."""

    def __init__(
        self,
        assignments: KnownAssignments,
        meter: ResultsMeter,
        figures: ProviderFigures,
        *,
        rules: ResultRules = ResultRules(),  # noqa: B008 - frozen
        recent: Recent | None = None,
        on_finished: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._assignments = assignments
        self._meter = meter
        self._lessons = Lessons(figures)
        self._rules = rules
        self._recent = recent if recent is not None else Recent()
        self._on_finished = on_finished  # hears the id of an assignment that has its result

    def __call__(self, message: Message) -> Outcome | Awaitable[Outcome]:
        reading = read_result(message, self._rules.limits)
        if reading.violations:
            self._meter.violated(message, reading.violations)
        result = reading.found
        if isinstance(result, Fault):
            return Dead(result)
        if result.tenant_id is not None and not self._serves(result.tenant_id):
            return FOREIGN_TENANT
        return correlated(self._assignments, _assignment_id(result), lambda known: self._conclude(message, result, known))

    def _serves(self, tenant_id: str) -> bool:
        return not self._rules.tenants_allowed or tenant_id in self._rules.tenants_allowed

    def _conclude(self, message: Message, result: ExecResult, known: Assignment | None) -> Outcome:
        if known is not None:
            fault = contradiction(known, tenant_id=result.tenant_id, request_id=result.request_id, assignment_id=result.assignment_id)
            if fault is not None and result.assignment_id is not None:
                # A result that contradicts its own assignment is forged, not late.
                self._meter.forged()
                return Dead(fault)
            known = known if fault is None else None  # we guessed the assignment from the request id, and wrongly
        if known is None and self._rules.uncorrelated == "refuse":
            return self._refuse(message)
        event = metered(result, known, marks_unknown=self._rules.uncorrelated == "mark")
        if isinstance(event, Fault):
            return Dead(event)
        if result.tenant_id is None and not self._serves(event.tenant_id):
            return FOREIGN_TENANT
        if known is not None:
            self._on_finished(known.assignment_id)
        return self._take(message, result, event, known)

    def _refuse(self, message: Message) -> Outcome:
        """The bucket's replica that was asked may lag by moments, so a result is refused when it comes again."""
        if message.starts <= 1:
            return Retry(UNKNOWN)
        self._meter.uncorrelated()
        return Dead(UNKNOWN)

    def _take(self, message: Message, result: ExecResult, event: UsageEvent, known: Assignment | None) -> Outcome:
        event_id = identity(event)
        seen = self._recent.note(event_id, event, message)
        if seen is Seen.FIRST:
            self._count(event, known)
        elif seen is not Seen.REDELIVERED:
            self._meter.duplicate(seen is Seen.CONFLICT)
        if known is not None:
            self._lessons.learn(known, result)
        subject = self._rules.usage_subject
        return Done((usage_effect(event, event_id, subject),)) if subject is not None else NOTHING_TO_STORE

    def _count(self, event: UsageEvent, known: Assignment | None) -> None:
        if known is None:
            self._meter.uncorrelated()
        self._meter.outcome(event.status, event.provider_id if known is None else known.provider_id, is_known=known is not None)


def _assignment_id(result: ExecResult) -> str | None:
    """The id that it names, else the one that its request would have.

    That is a guess: the identity of a request may be an idempotency key, which workers do not know. A wrong one finds
    nothing, or an assignment of another request, and the result is taken as one of an unknown assignment.
    """
    if result.assignment_id is not None or result.tenant_id is None or result.request_id is None:
        return result.assignment_id
    return assignment_id_of(result.tenant_id, result.request_id)
