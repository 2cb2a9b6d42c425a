"""Handle a worker's result: read it, correlate it, meter it. Pure but for its memory of earlier results.

    unreadable, incomplete, forged              -> Dead: a dead letter
    a tenant that this router does not serve    -> Retry: it may be allowed soon; the last attempt leaves a dead letter
    any outcome of any status                   -> Done with its usage event, which is stored before the ack
    its assignment is unknown                   -> the same, and no figures learn from it; or marked, or refused, by setting

A result whose assignment is in the cache stays on the synchronous path; a miss is a `Deferred` (`routing.reports.correlate`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

from msgspec import Struct

from router.contracts.assignment import Assignment, assignment_id_of
from router.contracts.malformed import CORRELATION_FIELDS_INVALID, STAGE_CORRELATION, STAGE_TENANT
from router.contracts.result import ExecResult, read_result
from router.contracts.usage import USAGE_SUBJECT, UsageEvent, identity
from router.contracts.worker import DEFAULT_LIMITS, ReadResult, WorkerMessageLimits
from router.core.message import Message
from router.core.outcome import Dead, Done, Fault, Outcome, Retry
from router.routing.reports.assignments import AssignmentLookup, correlate, find_contradiction
from router.routing.reports.metering import make_usage_effect, make_usage_event
from router.routing.reports.result_memory import FIRST, FirstResults, ProviderFigures, RecentOutcomes, Repetition

FOREIGN_TENANT_RETRY = Retry(Fault("tenant_forbidden", "This tenant is not served here", "tenant_id", STAGE_TENANT))
UNKNOWN_ASSIGNMENT = Fault(CORRELATION_FIELDS_INVALID, "The assignment is not known here", "assignment_id", STAGE_CORRELATION)
NOTHING_TO_STORE = Done()

Uncorrelated = Literal["accept", "mark", "refuse"]


class ResultsMeter(Protocol):
    """Counts results. The handler calls it on the event loop, so it must be cheap."""

    def on_violation(self, message: Message, reading: ReadResult[ExecResult]) -> None: ...

    def on_outcome(self, status: str, provider_id: str, *, is_known: bool) -> None:
        """Count an outcome that this instance sees for the first time: `router_results_total{status, provider}`.

        `is_known`: an assignment names the provider. Otherwise only the worker does, and its text makes no new label."""

    def on_uncorrelated(self) -> None:
        """The assignment is unknown; the result was handled all the same."""

    def on_forged(self) -> None:
        """The result contradicts the assignment that it names."""

    def on_duplicate(self, is_conflict: bool) -> None:
        """Another message reported this outcome before, with the same content or not."""


class ResultRules(Struct, frozen=True, kw_only=True):
    """Settings of the handler."""

    limits: WorkerMessageLimits = DEFAULT_LIMITS
    tenants_allowed: frozenset[str] = frozenset()  # empty = all
    usage_subject: str | None = USAGE_SUBJECT  # None: ENABLE_USAGE_PUBLISH=false
    uncorrelated: Uncorrelated = "accept"  # what happens to the usage of an unknown assignment


class ResultsHandler:
    """Meters workers' results. The consumer calls it with one message at a time."""

    def __init__(
        self,
        assignments: AssignmentLookup,
        meter: ResultsMeter,
        figures: ProviderFigures,
        *,
        rules: ResultRules = ResultRules(),  # noqa: B008 - frozen
        recent: RecentOutcomes | None = None,
        on_finished: Callable[[str], None] = lambda _: None,
        on_first: Callable[[Assignment, ExecResult], None] = lambda *_: None,
    ) -> None:
        self._assignments = assignments
        self._meter = meter
        self._lessons = FirstResults(figures, on_first)
        self._rules = rules
        self._recent = recent if recent is not None else RecentOutcomes()
        self._on_finished = on_finished  # called with the id of an assignment whose result has come

    def __call__(self, message: Message) -> Outcome | Awaitable[Outcome]:
        reading = read_result(message, self._rules.limits)
        if reading.violations:
            self._meter.on_violation(message, reading)
        result = reading.found
        if isinstance(result, Fault):
            return Dead(result)
        if result.tenant_id is not None and not self._is_served(result.tenant_id):
            return FOREIGN_TENANT_RETRY
        return correlate(self._assignments, _find_assignment_id(result), lambda known: self._conclude(message, result, known))

    def _is_served(self, tenant_id: str) -> bool:
        return not self._rules.tenants_allowed or tenant_id in self._rules.tenants_allowed

    def _conclude(self, message: Message, result: ExecResult, known: Assignment | None) -> Outcome:
        if known is not None:
            fault = find_contradiction(known, tenant_id=result.tenant_id, request_id=result.request_id, assignment_id=result.assignment_id)
            if fault is not None and result.assignment_id is not None:
                # A result that contradicts its own assignment is forged, not late.
                self._meter.on_forged()
                return Dead(fault)
            known = known if fault is None else None  # the assignment was guessed from the request id, and the guess was wrong
        if known is None and self._rules.uncorrelated == "refuse":
            return self._refuse(message)
        event = make_usage_event(result, known, marks_unknown=self._rules.uncorrelated == "mark")
        if isinstance(event, Fault):
            return Dead(event)
        if result.tenant_id is None and not self._is_served(event.tenant_id):
            return FOREIGN_TENANT_RETRY
        if known is not None:
            self._on_finished(known.assignment_id)
        return self._take(message, result, event, known)

    def _refuse(self, message: Message) -> Outcome:
        """Refuse the result at its second attempt: the bucket's replica that answered may lag by moments."""
        if message.attempts <= 1:
            return Retry(UNKNOWN_ASSIGNMENT)
        self._meter.on_uncorrelated()
        return Dead(UNKNOWN_ASSIGNMENT)

    def _take(self, message: Message, result: ExecResult, event: UsageEvent, known: Assignment | None) -> Outcome:
        event_id = identity(event)
        seen = self._recent.compare(event_id, event, message)
        if seen is FIRST:
            self._count(event, known)
        elif seen is not Repetition.REDELIVERED:
            self._meter.on_duplicate(seen is Repetition.CONFLICT)
        if known is not None:
            self._lessons.learn_from(known, result)
        subject = self._rules.usage_subject
        if subject is None:
            return NOTHING_TO_STORE
        return Done((make_usage_effect(event, event_id, subject, known.reservation if known is not None else None),))

    def _count(self, event: UsageEvent, known: Assignment | None) -> None:
        if known is None:
            self._meter.on_uncorrelated()
        self._meter.on_outcome(event.status, event.provider_id if known is None else known.provider_id, is_known=known is not None)


def _find_assignment_id(result: ExecResult) -> str | None:
    """Return the id that the result names, else the one that its request would have.

    The latter is a guess: a request's identity may be an idempotency key, which workers do not know. A wrong guess finds no
    assignment, or another request's, and then the result is handled as one of an unknown assignment.
    """
    if result.assignment_id is not None or result.tenant_id is None or result.request_id is None:
        return result.assignment_id
    return assignment_id_of(result.tenant_id, result.request_id)
