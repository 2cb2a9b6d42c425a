"""What follows where an assignment has its bill already, and another outcome comes
(docs/reference/contracts.md#later-outcomes). Pure.

    the first is                        the later one is        then
    timeout, cancelled                  success, error          an adjustment: the later one's cost
                                        counts in place of the first
    timeout, cancelled                  timeout, cancelled      nothing
    success, error                      any                     nothing: they are final
    an invocation                       success, error, dearer  an adjustment: the work cost more
                                        than the invocation alone
    an invocation                       any other               nothing: the router saw what it
                                        cost, and the worker says it
    held                                any                     nothing: an operator decides
    older than a duplicate window       any                     nothing

The first outcome that replaces another is final too: the adjustment's identity follows from the
bill alone, so a second one is a duplicate of it. An adjustment may be above the bound as a bill may
be, and is held then.
"""

from __future__ import annotations

from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from router.budgets.model.adjustment import OUTCOME, adjust_event, difference, outcome_identity
from router.contracts.usage import UsageEvent, identity

REPLACED = frozenset({"timeout", "cancelled"})
FINAL = frozenset({"success", "error"})


class MeteredEvent(Struct, frozen=True):
    """A usage event as the stream has it. `stored_ns`: stream time; `reservation`: its header.

    `is_invocation`: by a header that only the router sets; a job's type may be any text.
    """

    event: UsageEvent
    stored_ns: int
    reservation: str | None = None
    is_invocation: bool = False


def may_follow(event: UsageEvent) -> bool:
    """Whether it matters what is stored under the same identity."""
    return event.told_cost is not None or (event.status in FINAL and event.adjustment is None)


def is_same(stored: UsageEvent, event: UsageEvent) -> bool:
    """Whether the stored event tells the same outcome: it may be this one, whose process died."""
    told, tells = (
        (stored.status, stored.cost, stored.told_cost),
        (event.status, event.cost, event.told_cost),
    )
    return told == tells and stored.adjustment == event.adjustment


def make_correction(
    first: MeteredEvent, later: UsageEvent, stored_ns: int, window_ns: int
) -> UsageEvent | None:
    """Return the adjustment by which the later outcome replaces the first; None: it does not.
    `stored_ns`: when its result was.
    """
    event = first.event
    is_open = is_dearer(event, later) if first.is_invocation else is_replaced(event, later)
    if not is_open or stored_ns - first.stored_ns > window_ns:
        return None
    amount = difference(later.cost, event.cost)
    if not amount and later.told_cost is None:
        return None
    reason = f"{event.status}, then {later.status}"
    made = adjust_event(
        OUTCOME, event, amount, event_id=outcome_identity(identity(event)), reason=reason
    )
    if later.told_provider_id is not None:
        made = replace(made, told_provider_id=later.told_provider_id)
    return (
        made
        if later.told_cost is None
        else replace(made, told_cost=_number(difference(later.told_cost, event.cost)))
    )


def is_replaced(first: UsageEvent, later: UsageEvent) -> bool:
    """Whether the later outcome's cost counts in place of the first one's."""
    is_open = first.status in REPLACED and first.told_cost is None and first.adjustment is None
    return is_open and later.status in FINAL and later.adjustment is None


def is_dearer(first: UsageEvent, later: UsageEvent) -> bool:
    """Whether work cost more than the invocation that is its bill: its tenant may invoke a provider
    for next to nothing under its id.
    """
    return (
        first.adjustment is None
        and later.adjustment is None
        and later.status in FINAL
        and later.cost > first.cost
    )


def _number(amount: Decimal) -> float:
    return float(amount)
