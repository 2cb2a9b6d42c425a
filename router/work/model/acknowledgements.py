"""Handle a worker's acknowledgement: read it, correlate it, show it on the assignment
(docs/reference/contracts.md#acks).

    unreadable, or contradicts its assignment  -> Dead: a dead letter
    a tenant that this router does not serve   -> Retry: it may be allowed soon; the last attempt
                                               leaves a dead letter
    accepted, rejected, error                  -> Done: counted, and recorded on the assignment;
                                               rejected raises an alert
    the same status of an assignment again     -> Done: recorded, and neither counted nor alerted
                                               again

An acknowledgement decides nothing about the assignment: its result does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection
from typing import Protocol

from router.contracts.acknowledgement import REJECTED, ExecAssignmentAck, read_acknowledgement
from router.contracts.alert import WARNING, Alert
from router.contracts.assignment import Assignment
from router.contracts.malformed import STAGE_TENANT
from router.contracts.worker import DEFAULT_LIMITS, ReadResult, WorkerMessageLimits
from router.core.bounded_cache import PartedCache
from router.core.clock import Clock, steady
from router.core.message import Message
from router.core.outcome import Dead, Done, Fault, Outcome, Retry
from router.work.model.assignments import AssignmentLookup, correlate, find_contradiction

FOREIGN_TENANT_RETRY = Retry(
    Fault("tenant_forbidden", "This tenant is not served here", "tenant_id", STAGE_TENANT)
)
HANDLED = Done()
_MAX_REASON = 200  # characters of a worker's message in an alert


class AcknowledgementMeter(Protocol):
    """Counts acknowledgements. The handler calls it on the event loop, so it must be cheap."""

    def on_violation(self, message: Message, reading: ReadResult[ExecAssignmentAck]) -> None: ...

    def on_acknowledgement(self, status: str) -> None:
        """Count in `router_acks_total{status}`: one of three words."""

    def on_uncorrelated(self) -> None:
        """The assignment is unknown; the acknowledgement was handled all the same."""


class AssignmentStates(Protocol):
    """Where operators see the state of an assignment."""

    def on_acknowledgement(
        self, acknowledgement: ExecAssignmentAck, assignment: Assignment | None
    ) -> None: ...


class AlertSink(Protocol):
    """Publishes alerts for operators, at most so often for each cause."""

    def raise_alert(self, alert: Alert) -> None: ...


class RecentAcknowledgements:
    """What this instance counted of late: at most `limit` statuses of assignments, for `keep_s`
    each.
    """

    def __init__(self, limit: int = 50_000, keep_s: float = 3600.0, clock: Clock = steady) -> None:
        self._keep_s = keep_s
        self._clock = clock
        self._told: PartedCache[str, bool] = PartedCache(limit)

    def is_repeated(self, assignment_id: str, status: str, *, owner: str) -> bool:
        """Whether it was told before; from now on it was. `owner` has a share: invented ids push no
        known one out.
        """
        key, now = f"{status} {assignment_id}", self._clock()
        return self._told.get_or_put(key, True, now + self._keep_s, now, owner=owner) is not None


class AcknowledgementHandler:
    """Handles acknowledgements. The consumer calls it with one message at a time."""

    def __init__(
        self,
        assignments: AssignmentLookup,
        meter: AcknowledgementMeter,
        states: AssignmentStates,
        alerts: AlertSink,
        *,
        limits: WorkerMessageLimits = DEFAULT_LIMITS,
        tenants_allowed: Collection[str] = (),
    ) -> None:
        """`tenants_allowed`: empty = all."""
        self._assignments = assignments
        self._meter = meter
        self._states = states
        self._alerts = alerts
        self._limits, self._tenants_allowed = limits, frozenset(tenants_allowed)
        self._recent = RecentAcknowledgements()

    def __call__(self, message: Message) -> Outcome | Awaitable[Outcome]:
        reading = read_acknowledgement(message, self._limits)
        if reading.violations:
            self._meter.on_violation(message, reading)
        acknowledgement = reading.found
        if isinstance(acknowledgement, Fault):
            return Dead(acknowledgement)
        if self._tenants_allowed and not self._is_served(acknowledgement.tenant_id):
            return FOREIGN_TENANT_RETRY
        return correlate(
            self._assignments,
            acknowledgement.assignment_id,
            self._conclude,
            message,
            acknowledgement,
        )

    def _is_served(self, tenant_id: str | None) -> bool:
        """Of some tenants alone. None: its assignment will tell."""
        return tenant_id is None or tenant_id in self._tenants_allowed

    def _conclude(
        self, _: Message, acknowledgement: ExecAssignmentAck, assignment: Assignment | None
    ) -> Outcome:
        if assignment is None:
            self._meter.on_uncorrelated()
        else:
            fault = find_contradiction(
                assignment,
                tenant_id=acknowledgement.tenant_id,
                request_id=acknowledgement.request_id,
                assignment_id=acknowledgement.assignment_id,
            )
            if fault is not None:
                return Dead(fault)
            if self._tenants_allowed and not self._is_served(assignment.tenant_id):
                return FOREIGN_TENANT_RETRY
        is_repeated = self._recent.is_repeated(
            acknowledgement.assignment_id,
            acknowledgement.status,
            owner=assignment.tenant_id if assignment is not None else "",
        )
        if not is_repeated:
            self._meter.on_acknowledgement(acknowledgement.status)
        self._states.on_acknowledgement(acknowledgement, assignment)
        if acknowledgement.status == REJECTED and not is_repeated:
            self._alerts.raise_alert(_make_alert(acknowledgement, assignment))
        return HANDLED


def _make_alert(acknowledgement: ExecAssignmentAck, assignment: Assignment | None) -> Alert:
    facts = {
        "assignment_id": acknowledgement.assignment_id,
        "tenant_id": acknowledgement.tenant_id
        or (assignment.tenant_id if assignment is not None else None),
        "provider_id": assignment.provider_id if assignment is not None else None,
        "reason": acknowledgement.message[:_MAX_REASON]
        if acknowledgement.message is not None
        else None,
    }
    return Alert(
        severity=WARNING,
        component="router.acks",
        cause="assignment_rejected",
        message="A worker rejected an assignment",
        metadata={name: value for name, value in facts.items() if value is not None},
    )
