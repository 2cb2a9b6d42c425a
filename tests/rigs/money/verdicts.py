"""Whether a row holds. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from msgspec import Struct

from tests.rigs.money.bill import Bill
from tests.rigs.money.prices import ENDLESS, PRICES
from tests.rigs.money.rows import AMPLE, BY_NAME, Row

SLICE = Decimal("0.01")  # budgets.slice_percent
YES, NO = "yes", "**no**"


class Settled(Struct, frozen=True):
    """A budget at the end, as `router budget list` tells it. Its amounts are what the router says,
    and are compared.
    """

    amount: Decimal
    settled: Decimal
    events: int


class Side(Struct, frozen=True):
    """A tenant of a row at the end. `providers`: that its events name; `money`: all that is booked,
    also of streams that a kill cut.
    """

    bill: Bill
    budget: Settled | None
    providers: Sequence[str]


class RowResult(Struct, frozen=True):
    """One row on one tree."""

    row: str
    asked: int
    honest: Side
    hostile: Side
    routers: int
    answers: Mapping[str, int]  # of the hostile client


def checks_of(found: RowResult) -> dict[str, bool]:
    """What is promised, and whether it was kept."""
    row = BY_NAME[found.row]
    hostile, honest = found.hostile.bill, found.honest.bill
    return {
        "the honest bill is the ledger's": honest.difference == 0,
        "the hostile bill is the ledger's": -hostile.slack
        <= hostile.difference
        <= hostile.slack + hostile.covered,
        "every call is metered": honest.missing == hostile.missing == 0,
        "nothing is metered twice": honest.twice == hostile.twice == 0,
        "settled is the bill": _is_booked(found.honest) and _is_booked(found.hostile),
        "the budget holds": overspent(found) <= allowed(found),
        "the provider is the decision's": row.provider is None
        or set(found.hostile.providers) <= {row.provider},
    }


def _is_booked(side: Side) -> bool:
    return side.budget is not None and (side.budget.settled, side.budget.events) == (
        side.bill.booked,
        side.bill.events,
    )


def overspent(found: RowResult) -> Decimal:
    """By what is booked, whatever the router says is settled."""
    return max(Decimal(0), found.hostile.bill.booked - BY_NAME[found.row].amount)


def allowed(found: RowResult) -> Decimal:
    """A slice of each instance, and a piece of each stream that was open."""
    row = BY_NAME[found.row]
    price = PRICES[ENDLESS]
    return found.routers * row.amount * SLICE + row.pieces_at_once * price.cost(0, 0, 1)


def is_kept(found: RowResult) -> bool:
    return all(checks_of(found).values())


def says(found: RowResult) -> str:
    return YES if is_kept(found) else NO


def has_budget(row: Row) -> bool:
    return row.amount != AMPLE
