"""A held cost: the usage event that was booked at the bound, because a worker told more
(docs/reference/contracts.md#held-costs).

    beamline.usage.v1.held.{tenant}    the event; Nats-Msg-Id: held:{its id}; the stream ROUTER_HELD
                                       keeps the newest 1 000 of each tenant

It stands there until an operator decides (`router usage held`). The event itself has both costs,
and stays in the usage stream.
"""

from __future__ import annotations

from decimal import Decimal

from msgspec.structs import replace

from router.budgets.model.adjustment import HELD, adjust_event, derive_held_identity, difference
from router.budgets.model.reservation import RESERVATION_HEADER, policy_only
from router.contracts.usage import UsageEvent, identity, usage_bytes
from router.core import ids
from router.core.message import NO_HEADERS, Effect

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
