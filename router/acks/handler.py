"""A worker's acknowledgement in, an outcome out: read, correlate, tell (docs/contracts.md#acks).

    not readable, contradicts its assignment   -> Dead: a dead letter
    a tenant that is not served here           -> Retry: it may be allowed soon; the last attempt leaves a letter
    accepted, rejected, error                  -> Done: counted, and seen on the assignment; rejected is alerted

An acknowledgement decides nothing: the assignment's result does.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from msgspec import Struct

from router.assignments import KnownAssignments, contradiction, correlated
from router.contracts.ack import REJECTED, ExecAssignmentAck, read_ack
from router.contracts.alert import WARNING, Alert
from router.contracts.assignment import Assignment
from router.contracts.headers import Violation
from router.contracts.malformed import STAGE_TENANT
from router.contracts.worker import DEFAULT_LIMITS, WorkerMessageLimits
from router.message import Message
from router.outcome import Dead, Done, Fault, Outcome, Retry

FOREIGN_TENANT = Retry(Fault("tenant_forbidden", "This tenant is not served here", "tenant_id", STAGE_TENANT))
SEEN = Done()
_MAX_REASON = 200  # characters of a worker's own words in an alert


class AcksMeter(Protocol):
    """What the app counts of acknowledgements. Called on the loop, so it must be cheap."""

    def violated(self, message: Message, violations: tuple[Violation, ...]) -> None: ...

    def acknowledged(self, status: str) -> None:
        """`router_acks_total{status}`: one of three words."""

    def uncorrelated(self) -> None:
        """Its assignment is unknown; it was taken all the same."""


class AssignmentStates(Protocol):
    """Where people see how an assignment stands."""

    def acknowledged(self, ack: ExecAssignmentAck, known: Assignment | None) -> None: ...


class Alerts(Protocol):
    """Who tells the operators, as often as a cause may be heard."""

    def raised(self, alert: Alert) -> None: ...


class AckRules(Struct, frozen=True, kw_only=True):
    """Settings of the handler."""

    limits: WorkerMessageLimits = DEFAULT_LIMITS
    tenants_allowed: frozenset[str] = frozenset()  # empty = all


class AcksHandler:
    """Makes acknowledgements visible. Called by delivery with one message at a time."""

    def __init__(
        self,
        assignments: KnownAssignments,
        meter: AcksMeter,
        states: AssignmentStates,
        alerts: Alerts,
        *,
        rules: AckRules = AckRules(),  # noqa: B008 - frozen
    ) -> None:
        self._assignments = assignments
        self._meter = meter
        self._states = states
        self._alerts = alerts
        self._rules = rules

    def __call__(self, message: Message) -> Outcome | Awaitable[Outcome]:
        reading = read_ack(message, self._rules.limits)
        if reading.violations:
            self._meter.violated(message, reading.violations)
        ack = reading.found
        if isinstance(ack, Fault):
            return Dead(ack)
        if ack.tenant_id is not None and not self._serves(ack.tenant_id):
            return FOREIGN_TENANT
        return correlated(self._assignments, ack.assignment_id, lambda known: self._conclude(ack, known))

    def _serves(self, tenant_id: str) -> bool:
        return not self._rules.tenants_allowed or tenant_id in self._rules.tenants_allowed

    def _conclude(self, ack: ExecAssignmentAck, known: Assignment | None) -> Outcome:
        if known is None:
            self._meter.uncorrelated()
        else:
            fault = contradiction(known, tenant_id=ack.tenant_id, request_id=ack.request_id, assignment_id=ack.assignment_id)
            if fault is not None:
                return Dead(fault)
            if not self._serves(known.tenant_id):
                return FOREIGN_TENANT
        self._meter.acknowledged(ack.status)
        self._states.acknowledged(ack, known)
        if ack.status == REJECTED:
            self._alerts.raised(_rejection(ack, known))
        return SEEN


def _rejection(ack: ExecAssignmentAck, known: Assignment | None) -> Alert:
    facts = {
        "assignment_id": ack.assignment_id,
        "tenant_id": ack.tenant_id or (known.tenant_id if known is not None else None),
        "provider_id": known.provider_id if known is not None else None,
        "reason": ack.message[:_MAX_REASON] if ack.message is not None else None,
    }
    return Alert(
        severity=WARNING,
        component="router.acks",
        cause="assignment_rejected",
        message="A worker rejected an assignment",
        metadata={name: value for name, value in facts.items() if value is not None},
    )
