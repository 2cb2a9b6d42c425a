"""Which usage events a budget counts: the bill of its tenant, provider and policy, adjustments of
it, and what names the budget alone.
"""

import pytest

from router.budgets.model import Budget, book_costs
from router.budgets.model.reservation import BudgetReservation
from router.budgets.model.spent_record import SpentLease, SpentRecord, is_counted, make_booked_cost
from router.budgets.notices import find_notices, forget_notices
from router.contracts.usage import UsageCost

EVENT = UsageCost("acme", "openai", "a-1", "usage:1", 5)
BY_CHAT = BudgetReservation("life", 7, "chat", {"day": 3, "day/policy=chat": 4})


def a_budget(tenant_id: str = "acme", **scope: str) -> Budget:
    return Budget(tenant_id=tenant_id, amount=100, window="day", **scope)


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ({}, True),
        ({"tenant_id": "beta"}, False),
        ({"provider_id": "openai"}, True),
        ({"provider_id": "other"}, False),
        ({"policy_id": "chat"}, True),
        ({"policy_id": "other"}, False),
    ],
)
@pytest.mark.parametrize("adjustment", [None, "outcome", "held", "bill"])
def test_a_bill_and_its_adjustments_count_in_the_same_budgets(
    scope: dict[str, str], adjustment: str | None, *, expected: bool
) -> None:
    event = UsageCost("acme", "openai", None, "usage:1", 5, adjustment=adjustment)
    assert is_counted(a_budget(**scope), event, BY_CHAT) is expected


def test_without_a_header_no_policy_is_known() -> None:
    assert is_counted(a_budget(), EVENT, None)
    assert not is_counted(a_budget(policy_id="chat"), EVENT, None)


def test_a_marked_event_spends_nothing_whatever_its_header_says() -> None:
    marked = UsageCost("acme", "openai", "a-1", "usage:1", 10**18, is_correlated=False)
    assert not is_counted(a_budget(), marked, BY_CHAT)


@pytest.mark.parametrize(
    ("named", "expected"),
    [("day", False), ("day/provider=openai", True), ("day/provider=other", False), (None, False)],
)
def test_an_adjustment_of_a_budget_counts_in_that_budget_alone(
    named: str | None, *, expected: bool
) -> None:
    event = UsageCost("acme", "*", None, "usage:1", -5, adjustment="budget", budget=named)
    assert is_counted(a_budget(provider_id="openai"), event, None) is expected
    assert not is_counted(a_budget(tenant_id="beta", provider_id="openai"), event, None)


def test_an_event_ends_its_reservation_in_the_lease_of_each_budget() -> None:
    record = SpentRecord(
        is_counted=True,
        timeline="one",
        leases={"life.3": SpentLease(10, 99), "life.4": SpentLease(10, 99)},
    )
    settled = book_costs(record, "one", [make_booked_cost(a_budget(), EVENT, 1, 10, ended=BY_CHAT)])
    assert {name: lease.held for name, lease in settled.leases.items()} == {
        "life.3": 3,
        "life.4": 10,
    }
    unended = book_costs(record, "one", [make_booked_cost(a_budget(), EVENT, 1, 10)])
    assert (unended.settled, unended.held) == (5, 20)


def test_adjustments_are_in_what_is_settled_and_are_told_apart() -> None:
    credit = UsageCost("acme", "openai", None, "usage:2", -9, adjustment="bill")
    costs = [
        make_booked_cost(a_budget(), one, sequence, sequence)
        for sequence, one in enumerate((EVENT, credit), 1)
    ]
    record = book_costs(SpentRecord(is_counted=True, timeline="one"), "one", costs)
    assert (record.settled, record.events, record.adjusted, record.adjustments) == (-4, 2, -9, 1)


def test_a_notice_that_holds_no_more_after_a_credit_is_given_again() -> None:
    full = SpentRecord(settled=100, notices=(80, 100))
    less = forget_notices(full, SpentRecord(settled=85, notices=(80, 100)), 100)
    assert (less.notices, find_notices(less, 100)) == ((80,), ())
    assert forget_notices(full, SpentRecord(settled=20, notices=(80, 100)), 100).notices == ()
    grown = SpentRecord(settled=20, notices=(100,))  # it had no room for one request
    assert forget_notices(SpentRecord(settled=10), grown, 100) is grown
