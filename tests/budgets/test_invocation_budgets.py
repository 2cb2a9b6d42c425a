"""What an invocation reserves: as much as is expected, more while it streams, and nothing without
room.
"""

import pytest

from router.budgets.invocation_budgets import SHORT_S, InvocationBudgets, InvocationReservation
from router.budgets.model import Budget, BudgetSlice, BudgetTable
from router.budgets.model.reservation import read_reservation
from router.contracts.provider_request import ProviderRequest
from router.extensions.model.failure import InvocationRefused

REQUEST = ProviderRequest(
    provider_id="echo",
    tenant_id="acme",
    request_id="r-1",
    trace_id="t-1",
    metadata={"policy_id": "chat"},
)
MONTH = Budget(tenant_id="acme", amount=1_000, window="month")


class Town:
    """Budgets whose slices the test fills, on a clock that it moves."""

    def __init__(self, *budgets: Budget) -> None:
        self.now = 100.0
        self.table = BudgetTable("life", 0.1, lambda: self.now)
        self.table.replace(budgets)
        self.budgets = InvocationBudgets(self.table)

    @property
    def slices(self) -> list[BudgetSlice]:
        return list(self.table.slices.values())

    def fill(self, nanos: int) -> None:
        for one in self.slices:
            one.ends_s, one.number = 1_000, 3
            one.on_granted(nanos)

    def refuse(self) -> None:
        for one in self.slices:
            one.on_refused(1, self.now)

    async def reserve(self, nanos: int) -> InvocationReservation:
        reservation = await self.budgets.reserve(REQUEST, nanos)
        reservation._now = lambda: self.now
        return reservation


async def test_a_tenant_without_a_budget_reserves_nothing() -> None:
    assert (await Town().reserve(10)).header is None


async def test_budgets_of_other_policies_and_providers_are_left_alone() -> None:
    town = Town(
        MONTH,
        Budget(tenant_id="acme", amount=9, window="day", policy_id="chat", provider_id="echo"),
        Budget(tenant_id="acme", amount=9, window="day", policy_id="other"),
    )
    town.fill(500)
    found = read_reservation((await town.reserve(10)).header)
    assert found is not None
    assert (found.nanos, found.policy_id, dict(found.leases)) == (
        10,
        "chat",
        {"month": 3, "day/policy=chat/provider=echo": 3},
    )
    assert sorted(one.remaining for one in town.slices) == [490, 490, 500]


async def test_what_cost_nothing_is_given_back() -> None:
    town = Town(MONTH)
    town.fill(500)
    (await town.reserve(400)).release()
    assert [one.remaining for one in town.slices] == [500]


async def test_a_stream_that_costs_more_reserves_as_much_again_and_its_header_tells_the_sum() -> (
    None
):
    town = Town(MONTH)
    town.fill(500)
    reservation = await town.reserve(100)
    reservation.grow(100)
    assert [one.remaining for one in town.slices] == [400]
    reservation.grow(101)
    found = read_reservation(reservation.header)
    assert found is not None
    assert found.nanos == 200
    assert [one.remaining for one in town.slices] == [300]


async def test_what_a_later_lease_holds_is_not_told_as_the_first_ones() -> None:
    town = Town(MONTH)
    town.fill(500)
    reservation = await town.reserve(100)
    for one in town.slices:
        one.number += 1
    reservation.grow(150)
    found = read_reservation(reservation.header)
    assert found is not None
    assert (found.nanos, dict(found.leases)) == (100, {"month": 3})


async def test_a_stream_without_more_room_is_refused_and_one_that_waits_for_the_bucket_goes_on_for_a_while() -> (
    None
):
    town = Town(MONTH)
    town.fill(100)
    reservation = await town.reserve(100)
    reservation.grow(200)  # the bucket is asked
    town.now += SHORT_S + 1
    with pytest.raises(InvocationRefused, match="cannot be read"):
        reservation.grow(200)
    town.refuse()
    with pytest.raises(InvocationRefused) as refused:
        reservation.grow(200)
    assert (refused.value.code, refused.value.was_sent) == ("budget_exceeded", True)
    assert refused.value.details["budget"] == "month"


async def test_an_invocation_for_an_assignment_uses_what_was_reserved_for_it() -> None:
    town = Town(MONTH)
    town.fill(500)
    assigned = "other-life 300 sales month#7"
    covered = await town.budgets.reserve(REQUEST, 10, assigned, is_bill=True)
    assert covered.header == assigned
    assert [one.remaining for one in town.slices] == [500]
    further = read_reservation((await town.budgets.reserve(REQUEST, 10, assigned)).header)
    assert further is not None
    assert (further.policy_id, further.nanos) == ("sales", 10)
