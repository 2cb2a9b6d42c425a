"""An adjustment: the difference to what was booked, as a usage event of its own
(docs/reference/contracts.md#usage-adjustments).

    outcome   a later outcome of an assignment replaces the first       the router, before the later
              result is acked
    held      a held cost was accepted, or set                          `router usage held accept`
    bill      a bill was corrected                                      `router usage adjust`
    budget    one budget was corrected, and no bill                     `router budget adjust`

Each has an identity that follows from what it corrects, so that the same correction again is the
same event. Pure.
"""

from __future__ import annotations

from decimal import Decimal

from msgspec.structs import replace

from router.budgets.model.reservation import RESERVATION_HEADER, policy_only
from router.contracts.money import format_nanos, round_to_nanos
from router.contracts.request import ADJUSTMENT_TYPE
from router.contracts.usage import (
    ADJUSTED_SUBJECT,
    UsageEvent,
    derive_identity,
    identity,
    usage_bytes,
)
from router.core.message import NO_HEADERS, Effect

OUTCOME, HELD, BILL, BUDGET = "outcome", "held", "bill", "budget"  # ADJUSTMENTS
ADJUSTED_STATUS = "success"  # of every adjustment


def outcome_identity(event_id: str) -> str:
    """Of the one correction of this event by a later outcome: whichever replaces it first is final."""
    return derive_identity("adjustment", OUTCOME, event_id)


def derive_held_identity(event_id: str) -> str:
    """Of the one decision about the held cost of this event."""
    return derive_identity("adjustment", HELD, event_id)


def operator_identity(adjustment: str, tenant_id: str, command_id: str) -> str:
    """Of an operator's `bill` or `budget` adjustment: the same `--id` again is the same one."""
    return derive_identity("adjustment", adjustment, tenant_id, command_id)


def make_adjustment(
    adjustment: str,
    *,
    event_id: str,
    tenant_id: str,
    provider_id: str,
    amount: Decimal,
    timestamp: int,
    budget: str | None = None,
    reason: str | None = None,
) -> UsageEvent:
    """Build an adjustment of a period. `amount`: the signed difference; `timestamp`: ms, in the
    period that it corrects.
    """
    return UsageEvent(
        tenant_id=tenant_id,
        provider_id=provider_id,
        event_type=ADJUSTMENT_TYPE,
        latency_ms=0,
        cost=_round(amount),
        status=ADJUSTED_STATUS,
        timestamp=timestamp,
        event_id=event_id,
        adjustment=adjustment,
        budget=budget,
        reason=reason,
    )


def adjust_event(
    adjustment: str, event: UsageEvent, amount: Decimal, *, event_id: str, reason: str | None = None
) -> UsageEvent:
    """Build the adjustment of one event: its tenant, provider, model, ids and time are the event's,
    and `adjusts` names it.

    It is never marked: it counts, also where the event does not.
    """
    made = make_adjustment(
        adjustment,
        event_id=event_id,
        tenant_id=event.tenant_id,
        provider_id=event.provider_id,
        amount=amount,
        timestamp=event.timestamp,
        reason=reason,
    )
    return replace(
        made,
        trace_id=event.trace_id,
        assignment_id=event.assignment_id,
        request_id=event.request_id,
        model=event.model,
        adjusts=identity(event),
    )


def difference(cost: float, before: float) -> Decimal:
    """`cost - before`, each as silver rounds it: so the two events add up to the later cost, to the
    last digit.
    """
    return Decimal(_nanos(cost) - _nanos(before)).scaleb(-9)


def make_adjustment_effect(event: UsageEvent, reservation: str | None = None) -> Effect:
    """Build what stores it. `reservation`: the header of the event that it corrects; only the
    policy of it is kept, for its budgets.
    """
    policy = policy_only(reservation)
    headers = NO_HEADERS if policy is None else {RESERVATION_HEADER: policy}
    return Effect(
        ADJUSTED_SUBJECT, usage_bytes(event), identity(event), headers, owner=event.tenant_id
    )


def _nanos(cost: float) -> int:
    return round_to_nanos(Decimal(repr(cost)))


def _round(amount: Decimal) -> float:
    """The nearest number to the amount of at most nine places; never -0.0."""
    return float(format_nanos(round_to_nanos(amount))) + 0.0
