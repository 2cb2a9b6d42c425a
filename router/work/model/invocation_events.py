"""Make the usage event of one attempt to invoke a provider (docs/reference/extensions.md#metered).
Pure.

it ended          its status, and what it cost by its price, by what passed by, or as it was told
it has no end     status timeout, at its deadline, estimated: the same event whichever instance
                  makes it
"""

from __future__ import annotations

from msgspec.structs import replace

from router.budgets.model.prices import PricedUsage
from router.budgets.model.reservation import policy_only
from router.contracts.money import NANOS
from router.contracts.provider import TIMEOUT
from router.contracts.result import MAX_LATENCY_MS
from router.contracts.usage import UsageEvent, assignment_identity
from router.core.message import Effect
from router.work.model.invocation_record import InvocationRecord
from router.work.model.metering import make_usage_effect

ATTEMPT_HEADER = "Router-Attempt"  # of an assignment's bill: no worker's word has it


def make_attempt_event(
    record: InvocationRecord, usage: PricedUsage, status: str, *, latency_ms: int, timestamp: int
) -> UsageEvent:
    """Under an identity of its own."""
    return UsageEvent(
        tenant_id=record.tenant_id,
        provider_id=record.provider_id,
        event_type=record.event_type,
        latency_ms=min(latency_ms, MAX_LATENCY_MS),
        cost=usage.cost,
        status=status,
        timestamp=timestamp,
        trace_id=record.trace_id,
        request_id=record.request_id,
        event_id=record.event_id,
        model=usage.model,
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
        price=usage.price,
        is_estimated=usage.estimated,
        told_cost=None if usage.told_nanos is None else usage.told_nanos / NANOS,
    )


def make_unfinished_event(record: InvocationRecord) -> UsageEvent:
    """Of an attempt whose end no instance has told by its deadline."""
    usage = PricedUsage(
        nanos=record.nanos,
        model=record.model,
        input_tokens=record.input_tokens,
        price=record.price,
        estimated=True,
    )
    latency_ms = max(record.deadline_ms - record.begun_ms, 0)
    return make_attempt_event(
        record, usage, TIMEOUT, latency_ms=latency_ms, timestamp=record.deadline_ms
    )


def make_attempt_effect(record: InvocationRecord, event: UsageEvent) -> Effect:
    return make_usage_effect(event, reservation=record.reservation)


def make_bill_event(record: InvocationRecord, event: UsageEvent) -> UsageEvent:
    """The same attempt as the bill of its assignment, which its worker's result repeats."""
    assignment_id, request_id = (
        record.assignment_id,
        record.assigned_request_id or record.request_id,
    )
    event_id = assignment_identity(record.tenant_id, assignment_id or "")
    return replace(event, event_id=event_id, assignment_id=assignment_id, request_id=request_id)


def make_bill_effect(record: InvocationRecord, bill: UsageEvent) -> Effect:
    effect = make_attempt_effect(record, bill)
    return replace(effect, headers={**effect.headers, ATTEMPT_HEADER: record.attempt_id})


def make_further_effect(record: InvocationRecord, event: UsageEvent) -> Effect:
    """Of an attempt whose assignment has another bill already: the reservation was ended by that
    one.
    """
    return make_usage_effect(event, reservation=policy_only(record.reservation))
