"""Handle a worker's result: read it, correlate it, meter it. Pure but for its memory of earlier
results.

    unreadable, incomplete, forged              -> Dead: a dead letter
    a tenant that this router does not serve    -> Retry: it may be allowed soon; the last attempt
                                                leaves a dead letter
    any outcome of any status                   -> Done with its usage event, which is stored before
                                                the ack
    its assignment is unknown                   -> the same, marked: no bill, and no figures learn
                                                from it; or refused, by setting
    its bill is stored already                  -> what follows from that is stored too: a
                                                correction, or nothing (`result_memory`)
    its cost is above the bound                 -> the notice for operators is stored after the
                                                event that is booked at the bound
    its provider can be invoked                 -> that its worker has reported is stored before the
                                                event (`Marks`)

A result whose assignment is in the cache stays on the synchronous path; a miss is a `Deferred`
(`work.model.assignments`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from router.budgets.model.held_cost import make_adjustment_effect, make_held_notice
from router.contracts.assignment import Assignment, assignment_id_of
from router.contracts.headers import first_stored_ms
from router.contracts.malformed import CORRELATION_FIELDS_INVALID, STAGE_CORRELATION, STAGE_TENANT
from router.contracts.result import ExecResult, read_result
from router.contracts.usage import USAGE_SUBJECT, UsageEvent, identity
from router.contracts.worker import DEFAULT_LIMITS, ReadResult, WorkerMessageLimits
from router.core.message import Effect, Message
from router.core.outcome import Commit, Dead, Done, Fault, Outcome, PublishAck, Retry, Then
from router.work.model.assignments import AssignmentLookup, correlate, find_contradiction
from router.work.model.metering import CostBound, make_bill, make_marked_event, make_usage_effect
from router.work.model.result_memory import (
    FIRST,
    FirstResults,
    MeteredEvent,
    RecentOutcomes,
    Repetition,
    is_same,
    make_correction,
    may_follow,
)
from router.work.settings import ResultsConfig, UsageConfig

FOREIGN_TENANT_RETRY = Retry(
    Fault("tenant_forbidden", "This tenant is not served here", "tenant_id", STAGE_TENANT)
)
UNKNOWN_ASSIGNMENT = Fault(
    CORRELATION_FIELDS_INVALID,
    "The assignment is not known here",
    "assignment_id",
    STAGE_CORRELATION,
)
NOTHING_TO_STORE = Done()

Uncorrelated = Literal["mark", "refuse"]


class ResultsMeter(Protocol):
    """Counts results. The handler calls it on the event loop, so it must be cheap."""

    def on_violation(self, message: Message, reading: ReadResult[ExecResult]) -> None: ...

    def on_outcome(self, status: str, provider_id: str, *, is_known: bool) -> None:
        """Count an outcome that this instance sees for the first time:
        `router_results_total{status, provider}`.

        `is_known`: an assignment names the provider. Otherwise only the worker does, and its text
        makes no new label.
        """

    def on_uncorrelated(self) -> None:
        """The assignment is unknown; the result was handled all the same."""

    def on_forged(self) -> None:
        """The result contradicts the assignment that it names."""

    def on_duplicate(self, is_conflict: bool) -> None:
        """Another message reported this outcome before, with the same content or not."""

    def on_overruled(self, field: str, event: UsageEvent) -> None:
        """The result says otherwise than its assignment, which counts. `field`: provider_id | job_type | timestamp."""

    def on_held(self, event: UsageEvent) -> None:
        """The event is booked at its bound, and what is above it is held."""

    def on_corrected(self, event: UsageEvent) -> None:
        """A later outcome replaces the first, by this adjustment."""


class MeteredEvents(Protocol):
    """The usage stream, as far as it is asked for the event that was stored first."""

    async def find(self, publish_ack: PublishAck) -> MeteredEvent | None:
        """The event that a duplicate's publish ack names; None: it is gone. Raises
        BrokerUnavailable.
        """


class ReportMark(Struct, frozen=True, gc=False):
    """`effect`: that a worker has reported; `commit`: what remembers that it is stored.

    `goes_first`: no event is stored without it; else it is stored beside the event, which it never
    delays.
    """

    effect: Effect
    commit: Commit | None = None
    goes_first: bool = False


class Marks(Protocol):
    """That the worker of an assignment has reported, for those who invoke its provider later."""

    def find(self, assignment: Assignment) -> ReportMark | None:
        """What is to be stored before the result is acked; nearly always nothing. Asked of each
        result, so it must be cheap.
        """


class ResultRules(Struct, frozen=True, kw_only=True):
    """The settings that the handler needs. `window_ms`: a bill may be corrected by a later outcome
    so long.
    """

    limits: WorkerMessageLimits = DEFAULT_LIMITS
    tenants_allowed: frozenset[str] = frozenset()  # empty = all
    usage: UsageConfig = UsageConfig()
    results: ResultsConfig = ResultsConfig()
    window_ms: int = 600_000


class ResultsHandler:
    """Meters workers' results. The consumer calls it with one message at a time."""

    def __init__(
        self,
        assignments: AssignmentLookup,
        meter: ResultsMeter,
        lessons: FirstResults,
        metered: MeteredEvents,
        marks: Marks,
        *,
        rules: ResultRules = ResultRules(),  # noqa: B008 - frozen
        recent: RecentOutcomes | None = None,
        on_finished: Callable[[str], None],
    ) -> None:
        self._assignments = assignments
        self._meter = meter
        self._lessons = lessons
        self._metered = metered
        self._marks = marks
        self._limits, self._tenants_allowed = rules.limits, rules.tenants_allowed
        self._usage_subject = USAGE_SUBJECT if rules.usage.enabled else None
        self._refuses_uncorrelated = rules.usage.uncorrelated == "refuse"
        self._bound = CostBound(rules.results)
        self._window_ns = rules.window_ms * 1_000_000
        self._recent = recent if recent is not None else RecentOutcomes()
        self._on_finished = on_finished  # called with the id of an assignment whose result has come

    def __call__(self, message: Message) -> Outcome | Awaitable[Outcome]:
        reading = read_result(message, self._limits)
        if reading.violations:
            self._meter.on_violation(message, reading)
        result = reading.found
        if isinstance(result, Fault):
            return Dead(result)
        if self._tenants_allowed and not self._is_served(result.tenant_id):
            return FOREIGN_TENANT_RETRY
        return correlate(
            self._assignments, _find_assignment_id(result), self._conclude, message, result
        )

    def _is_served(self, tenant_id: str | None) -> bool:
        """Of some tenants alone. None: its assignment will tell."""
        return tenant_id is None or tenant_id in self._tenants_allowed

    def _conclude(
        self, message: Message, result: ExecResult, assignment: Assignment | None
    ) -> Outcome:
        if assignment is not None:
            fault = find_contradiction(
                assignment,
                tenant_id=result.tenant_id,
                request_id=result.request_id,
                assignment_id=result.assignment_id,
            )
            if fault is None:
                return self._bill(message, result, assignment)
            if result.assignment_id is not None:
                # A result that contradicts its own assignment is forged, not late.
                self._meter.on_forged()
                return Dead(fault)
            # The assignment was guessed from the request id, and the guess was wrong.
        return self._refuse(message) if self._refuses_uncorrelated else self._mark(message, result)

    def _refuse(self, message: Message) -> Outcome:
        """Refuse the result at its second attempt: the bucket's replica that answered may lag by
        moments.
        """
        if message.attempts <= 1:
            return Retry(UNKNOWN_ASSIGNMENT)
        self._meter.on_uncorrelated()
        return Dead(UNKNOWN_ASSIGNMENT)

    def _mark(self, message: Message, result: ExecResult) -> Outcome:
        """Meter a result of an unknown assignment: what only a worker says is no bill."""
        event = make_marked_event(result)
        if isinstance(event, Fault):
            return Dead(event)
        event_id = identity(event)
        seen = self._recent.compare(event_id, event, message)
        if seen is FIRST:
            self._meter.on_uncorrelated()
            self._meter.on_outcome(event.status, event.provider_id, is_known=False)
        else:
            self._count_again(seen)
        subject = self._usage_subject
        return (
            NOTHING_TO_STORE
            if subject is None
            else Done((make_usage_effect(event, event_id, subject),))
        )

    def _bill(self, message: Message, result: ExecResult, assignment: Assignment) -> Outcome:
        """Meter the outcome of an assignment: once, whatever else a worker says of it later."""
        if self._tenants_allowed and not self._is_served(assignment.tenant_id):
            return FOREIGN_TENANT_RETRY
        self._on_finished(assignment.assignment_id)
        listed_cost = assignment.expected_cost
        bound = self._bound.find_of(listed_cost)
        event = make_bill(result, assignment, bound, first_stored_ms(message))
        event_id = identity(event)
        seen = self._recent.compare(event_id, event, message)
        if seen is FIRST:
            self._meter.on_outcome(event.status, event.provider_id, is_known=True)
        else:
            self._count_again(seen)
        if seen is FIRST or seen is Repetition.LATER:
            self._compare_words(event, result)
        self._lessons.learn_from(
            assignment,
            result if event.told_cost is None else replace(result, cost=event.cost),
            listed_cost,
        )
        if self._usage_subject is None:
            return NOTHING_TO_STORE
        effect = make_usage_effect(event, event_id, self._usage_subject, assignment.reservation)
        is_repeated = seen is Repetition.DUPLICATE  # what follows, follows from the first one
        then = (
            None
            if is_repeated
            else _Following(self, event, message.stored_ns, assignment.reservation)
        )
        # also of one that comes again: whether the mark of the first is stored, nothing here knows
        mark = self._marks.find(assignment)
        return Done((effect,), then=then) if mark is None else _store_marked(mark, effect, then)

    def _count_again(self, seen: Repetition) -> None:
        if seen is not Repetition.REDELIVERED:
            self._meter.on_duplicate(seen is Repetition.CONFLICT)

    def _compare_words(self, event: UsageEvent, result: ExecResult) -> None:
        if event.told_provider_id is not None:
            self._meter.on_overruled("provider_id", event)
        if result.job_type is not None and result.job_type != event.event_type:
            self._meter.on_overruled("job_type", event)
        if result.timestamp != event.timestamp:
            self._meter.on_overruled("timestamp", event)

    def follow_first(self, event: UsageEvent, reservation: str | None) -> Done | None:
        """The event is stored, and the first of its identity."""
        if event.adjustment is not None:
            self._meter.on_corrected(event)
        return None if event.told_cost is None else self._hold(event, reservation)

    async def follow_duplicate(
        self, event: UsageEvent, stored_ns: int, publish_ack: PublishAck
    ) -> Done | None:
        """An event has the same identity already. What is stored counts, not what this one says."""
        first = await self._metered.find(publish_ack)
        if first is None:
            return None
        if is_same(first.event, event):  # it may be this one: the process died before its notice
            return None if event.told_cost is None else self._hold(first.event, first.reservation)
        correction = make_correction(first, event, stored_ns, self._window_ns)
        if correction is None:
            return None
        effect = make_adjustment_effect(correction, first.reservation)
        return Done((effect,), then=_Following(self, correction, stored_ns, first.reservation))

    def _hold(self, event: UsageEvent, reservation: str | None) -> Done:
        self._meter.on_held(event)
        return Done((make_held_notice(event, reservation),))


def _store_marked(mark: ReportMark, effect: Effect, then: Then | None) -> Done:
    if mark.goes_first:
        return Done((mark.effect,), commit=mark.commit, then=lambda _: Done((effect,), then=then))
    return Done((effect, mark.effect), commit=mark.commit, then=then)


class _Following(Struct, frozen=True, gc=False):
    """What follows once the event has its publish ack: nearly always nothing. One small object for
    each bill.
    """

    handler: ResultsHandler
    event: UsageEvent
    stored_ns: int
    reservation: str | None

    def __call__(self, publish_acks: Sequence[PublishAck]) -> Done | Awaitable[Done | None] | None:
        publish_ack, event = publish_acks[0], self.event
        if not publish_ack.is_duplicate:
            if event.told_cost is None and event.adjustment is None:
                return None
            return self.handler.follow_first(event, self.reservation)
        return (
            self.handler.follow_duplicate(event, self.stored_ns, publish_ack)
            if may_follow(event)
            else None
        )


def _find_assignment_id(result: ExecResult) -> str | None:
    """Return the id that the result names, else the one that its request would have.

    The latter is a guess: a request's identity may be an idempotency key, which workers do not
    know. A wrong guess finds no assignment, or another request's, and then the result is handled as
    one of an unknown assignment.
    """
    if result.assignment_id is not None or result.tenant_id is None or result.request_id is None:
        return result.assignment_id
    return assignment_id_of(result.tenant_id, result.request_id)
