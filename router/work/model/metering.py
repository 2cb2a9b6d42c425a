"""Make the usage event of a result (docs/reference/contracts.md#usage). Pure.

its assignment is known    make_bill: provider, tenant, request and job type are the assignment's;
                           its identity is the assignment's
                           alone, so that it has one bill; a cost above the bound is booked at the
                           bound
unknown                    make_marked_event: what the worker says, marked, under the identity of
                           what it says: no bill
"""

from __future__ import annotations

from router.budgets.model.reservation import RESERVATION_HEADER
from router.contracts.assignment import Assignment
from router.contracts.malformed import missing_field
from router.contracts.result import ExecResult
from router.contracts.usage import (
    USAGE_SUBJECT,
    UsageEvent,
    assignment_identity,
    identity,
    usage_bytes,
)
from router.core.message import NO_HEADERS, Effect
from router.core.outcome import Fault
from router.work.settings import ResultsConfig

CLOCK_SKEW_MS = 60_000  # by which a worker's clock may differ from the server's


class CostBound:
    """How far above what the policy expects a result's cost is believed
    (docs/reference/contracts.md#cost-bound).
    """

    __slots__ = ("factor", "floor")

    def __init__(self, settings: ResultsConfig) -> None:
        self.factor, self.floor = settings.cost_factor, settings.cost_floor

    def find_of(self, expected_cost: float) -> float:
        bound = self.factor * expected_cost
        return bound if bound > self.floor else self.floor


def make_bill(
    result: ExecResult, assignment: Assignment, bound: float, stored_ms: int
) -> UsageEvent:
    """Return the event of an assignment's outcome. What the worker said otherwise stands beside it,
    and is not believed.

    `stored_ms`: when the result was first stored.
    """
    told_cost, told_provider_id = result.cost, result.provider_id
    return UsageEvent(
        tenant_id=assignment.tenant_id,
        provider_id=assignment.provider_id,
        event_type=assignment.job_type,
        latency_ms=result.latency_ms,
        cost=told_cost if told_cost <= bound else bound,
        status=result.status,
        timestamp=bound_time(result.timestamp, assignment.requested_at_ms, stored_ms),
        trace_id=result.trace_id or assignment.trace_id,
        assignment_id=assignment.assignment_id,
        request_id=assignment.request_id,
        event_id=assignment_identity(assignment.tenant_id, assignment.assignment_id),
        told_cost=None if told_cost <= bound else told_cost,
        told_provider_id=None if told_provider_id == assignment.provider_id else told_provider_id,
    )


def bound_time(told_ms: int, requested_ms: int, stored_ms: int) -> int:
    """Return when the work was done: as told, where that lies between its request and its result;
    else the result's time.
    """
    # what a sender writes of a replay is bounded too
    latest = stored_ms if stored_ms > requested_ms else requested_ms
    return told_ms if requested_ms - CLOCK_SKEW_MS <= told_ms <= latest + CLOCK_SKEW_MS else latest


def make_marked_event(result: ExecResult) -> UsageEvent | Fault:
    """Return the event of a result whose assignment is not known; a Fault names the field that it
    lacks.
    """
    provider_id, job_type, tenant_id = result.provider_id, result.job_type, result.tenant_id
    if provider_id is None or job_type is None or tenant_id is None:
        return _find_missing(provider_id, job_type)
    return UsageEvent(
        tenant_id=tenant_id,
        provider_id=provider_id,
        event_type=job_type,
        latency_ms=result.latency_ms,
        cost=result.cost,
        status=result.status,
        timestamp=result.timestamp,
        trace_id=result.trace_id,
        assignment_id=result.assignment_id,
        request_id=result.request_id,
        is_correlated=False,
    )


def make_usage_effect(
    event: UsageEvent,
    event_id: str | None = None,
    subject: str = USAGE_SUBJECT,
    reservation: str | None = None,
) -> Effect:
    """Return the effect that stores the event. Its id is the event's identity (`event_id` if
    already computed).

    `reservation`: of its decision in budgets, its only other header
    (docs/reference/budgets.md#reservation-header).
    """
    headers = NO_HEADERS if reservation is None else {RESERVATION_HEADER: reservation}
    return Effect(
        subject,
        usage_bytes(event),
        identity(event) if event_id is None else event_id,
        headers,
        owner=event.tenant_id,
    )


def _find_missing(provider_id: str | None, job_type: str | None) -> Fault:
    if provider_id is None:
        return missing_field("provider_id", "provider_id").as_fault()
    if job_type is None:
        return missing_field("job.type", "job.type").as_fault()
    return missing_field("tenant_id", "tenant_id").as_fault()
