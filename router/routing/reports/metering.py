"""Make the usage event of a result, with its assignment if that is known (docs/reference/contracts.md#usage).

The assignment fills the fields that the result left out: provider, job type, tenant. It never fills the result's ids: the
event's identity is made of what the worker sent, so it is the same whether the assignment is still known or not.
"""

from __future__ import annotations

from router.contracts.assignment import Assignment
from router.contracts.malformed import missing_field
from router.contracts.reservation import RESERVATION_HEADER
from router.contracts.result import ExecResult
from router.contracts.usage import USAGE_SUBJECT, UsageEvent, identity, usage_bytes
from router.core.message import NO_HEADERS, Effect
from router.core.outcome import Fault


def make_usage_event(result: ExecResult, known: Assignment | None, *, marks_unknown: bool = False) -> UsageEvent | Fault:
    """Return the event of one outcome, whatever its status; a Fault names the field that neither side has.

    `marks_unknown`: mark the event of an unknown assignment (`usage.uncorrelated = mark`)."""
    provider_id, job_type, tenant_id, trace_id = result.provider_id, result.job_type, result.tenant_id, result.trace_id
    if known is not None:
        provider_id, job_type = provider_id or known.provider_id, job_type or known.job_type
        tenant_id, trace_id = tenant_id or known.tenant_id, trace_id or known.trace_id
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
        trace_id=trace_id,
        assignment_id=result.assignment_id,
        request_id=result.request_id,
        is_correlated=known is not None or not marks_unknown,
    )


def make_usage_effect(
    event: UsageEvent, event_id: str | None = None, subject: str = USAGE_SUBJECT, reservation: str | None = None
) -> Effect:
    """Return the effect that stores the event. Its id is the event's identity (`event_id` if already computed).

    `reservation`: of its decision in budgets, its only other header (docs/reference/budgets.md#reservation-header)."""
    headers = NO_HEADERS if reservation is None else {RESERVATION_HEADER: reservation}
    return Effect(subject, usage_bytes(event), identity(event) if event_id is None else event_id, headers, owner=event.tenant_id)


def _find_missing(provider_id: str | None, job_type: str | None) -> Fault:
    if provider_id is None:
        return missing_field("provider_id", "provider_id").as_fault()
    if job_type is None:
        return missing_field("job.type", "job.type").as_fault()
    return missing_field("tenant_id", "tenant_id").as_fault()
