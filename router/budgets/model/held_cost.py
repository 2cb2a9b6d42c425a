"""Adjustments, each the difference to what was booked; and held costs, which an operator decides by
one. A held cost was booked at the bound, because a worker told more
(docs/reference/contracts.md#held-costs).

    beamline.usage.v1.held.{tenant}    the event; Nats-Msg-Id: held:{its id}; the stream ROUTER_HELD
                                       keeps the newest 1 000 of each tenant

It stands there until an operator decides (`router usage held`). The event itself has both costs,
and stays in the usage stream.
"""

from __future__ import annotations

from decimal import Decimal

from msgspec.structs import replace

from router.budgets.model.reservation import RESERVATION_HEADER, policy_only
from router.contracts.decision import ADJUSTMENT_TYPE
from router.contracts.money import format_nanos, round_to_nanos
from router.contracts.usage import (
    ADJUSTED_SUBJECT,
    UsageEvent,
    derive_identity,
    identity,
    usage_bytes,
)
from router.core import ids
from router.core.message import NO_HEADERS, Effect

# -- An adjustment: the difference to what was booked, as a usage event of its own
# (docs/reference/contracts.md#usage-adjustments).
#
# outcome   a later outcome of an assignment replaces the first       the router, before the later
#           result is acked
# held      a held cost was accepted, or set                          `router usage held accept`
# bill      a bill was corrected                                      `router usage adjust`
# budget    one budget was corrected, and no bill                     `router budget adjust`
#
# Each has an identity that follows from what it corrects, so that the same correction again is the
# same event. Pure.


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


# -- A held cost: the usage event that was booked at the bound, because a worker told more.


HELD_SUBJECT = "beamline.usage.v1.held"
ALL_HELD = f"{HELD_SUBJECT}.*"
MAX_HELD = 1000  # of each tenant; the oldest go


def find_held_subject(tenant_id: str) -> str:
    """A tenant may have dots in its name: each is escaped, so that it is one token."""
    return f"{HELD_SUBJECT}.{ids.key(tenant_id)}"


def make_held_notice(event: UsageEvent, reservation: str | None = None) -> Effect:
    """Build the notice of an event that was booked at its bound. `reservation`: the event's header,
    of which the policy is kept.
    """
    policy = policy_only(reservation)
    headers = NO_HEADERS if policy is None else {RESERVATION_HEADER: policy}
    return Effect(
        find_held_subject(event.tenant_id),
        usage_bytes(event),
        f"held:{identity(event)}",
        headers,
        owner=event.tenant_id,
    )


def make_held_adjustment(
    event: UsageEvent, amount: float | None, reason: str | None = None
) -> UsageEvent:
    """Build the adjustment of a held cost. `amount`: what the outcome costs after all; None: what
    the worker told.

    Of a correction that is held both are differences to the bill, and the adjustment is the bill's,
    too.
    """
    cost = (
        (event.cost if event.told_cost is None else event.told_cost) if amount is None else amount
    )
    rest: Decimal = difference(cost, event.cost)
    made = adjust_event(
        HELD, event, rest, event_id=derive_held_identity(identity(event)), reason=reason
    )
    return made if event.adjusts is None else replace(made, adjusts=event.adjusts)
