"""What a decision has reserved in its tenant's budgets: it stands in the assignment's record, and
as a header of the usage event.

    Router-Reservation: {life} {nanos} {policy} {budget}#{lease} …

So the settlement ends the reservation with the event, and knows by which policy was decided
(docs/reference/budgets.md#reservation-header).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

RESERVATION_HEADER = "Router-Reservation"
_LONGEST = 16_384  # characters


class BudgetReservation(Struct, frozen=True, gc=False):
    """`life`: of the instance that decided; `leases`: the number of the lease that was charged, by
    budget.
    """

    life: str
    nanos: int
    policy_id: str
    leases: Mapping[str, int]


def reservation_text(reservation: BudgetReservation) -> str:
    """The header's value."""
    budgets = (f"{budget_id}#{number}" for budget_id, number in reservation.leases.items())
    return " ".join((reservation.life, str(reservation.nanos), reservation.policy_id, *budgets))


def policy_only(text: str | None) -> str | None:
    """The same header with its policy alone: what carries it counts in the policy's budgets, and
    ends no reservation.
    """
    reservation = read_reservation(text)
    return (
        None
        if reservation is None
        else reservation_text(BudgetReservation(reservation.life, 0, reservation.policy_id, {}))
    )


def read_reservation(text: str | None) -> BudgetReservation | None:
    """None where there is none, or the value is none."""
    if text is None or len(text) > _LONGEST:
        return None
    parts = text.split(" ")
    try:
        life, nanos, policy_id = parts[:3]
        leases = {
            name: int(number) for name, _, number in (part.rpartition("#") for part in parts[3:])
        }
        return BudgetReservation(life, int(nanos), policy_id, leases)
    except ValueError:
        return None
