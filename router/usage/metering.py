"""From a result, and its assignment where that is known, to the usage event that is stored for it (docs/contracts.md#usage).

The assignment fills what the result left out: provider, job type, tenant. It never fills the result's ids: the
identity of the event is made of what the worker said, so that it is the same whether the assignment is still known or not.
"""

from __future__ import annotations

from router.contracts.assignment import Assignment
from router.contracts.malformed import missing_field
from router.contracts.result import ExecResult
from router.contracts.usage import SUBJECT, UsageEvent, identity, usage_bytes
from router.message import Effect
from router.outcome import Fault


def metered(result: ExecResult, known: Assignment | None, *, marks_unknown: bool = False) -> UsageEvent | Fault:
    """The event of one outcome, whatever its status; a Fault names what neither side says.

    `marks_unknown`: the event of an unknown assignment says so (`usage.uncorrelated = mark`)."""
    provider_id, job_type, tenant_id, trace_id = result.provider_id, result.job_type, result.tenant_id, result.trace_id
    if known is not None:
        provider_id, job_type = provider_id or known.provider_id, job_type or known.job_type
        tenant_id, trace_id = tenant_id or known.tenant_id, trace_id or known.trace_id
    if provider_id is None or job_type is None or tenant_id is None:
        return _missing(provider_id, job_type)
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


def usage_effect(event: UsageEvent, event_id: str | None = None, subject: str = SUBJECT) -> Effect:
    """The event as what is to be stored; its id is its identity (`event_id`, where that was worked out before), its only header."""
    return Effect(subject, usage_bytes(event), identity(event) if event_id is None else event_id, owner=event.tenant_id)


def _missing(provider_id: str | None, job_type: str | None) -> Fault:
    if provider_id is None:
        return missing_field("provider_id", "provider_id").as_fault()
    if job_type is None:
        return missing_field("job.type", "job.type").as_fault()
    return missing_field("tenant_id", "tenant_id").as_fault()
