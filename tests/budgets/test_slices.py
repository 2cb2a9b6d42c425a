"""A slice of a budget: what an instance may reserve by itself, and when it asks for more."""

import asyncio

import pytest

from router.budgets.model import Budget, BudgetSlice, BudgetTable, SliceShort, find_window
from router.budgets.model.reserving import Charge
from router.contracts.decision import Decision
from router.core.errors import BrokerUnavailable
from tests.support.policy import a_request

NOON_S = 1_800_000_000
HOUR_S = 3600


def a_slice(remaining: int, size: int = 100) -> tuple[BudgetSlice, list[int]]:
    """The slice of an hour's budget, and what it says it needs, each time it asks."""
    asked: list[int] = []
    budget = Budget(tenant_id="acme", amount=1000, window="hour")
    one = BudgetSlice(budget, size, lambda it: asked.append(it.need))
    one.remaining, one.ends_s = remaining, NOON_S + HOUR_S
    return one, asked


def test_there_is_room_for_all_that_remains_until_the_window_ends() -> None:
    one, _ = a_slice(100)
    assert one.has_room(100, NOON_S)
    assert not one.has_room(101, NOON_S)
    assert one.has_room(1, NOON_S + HOUR_S - 1)
    assert not one.has_room(1, NOON_S + HOUR_S)


def test_a_new_slice_has_room_for_nothing() -> None:
    new = BudgetSlice(Budget(tenant_id="acme", amount=9, window="day"), 9, lambda _: None)
    assert not new.has_room(0, 0)
    assert (new.remaining, new.is_asked, new.need, new.left) == (0, False, 0, None)
    assert not new.is_refused(10**18, 0)


def test_the_next_slice_is_asked_for_once_less_than_half_remains() -> None:
    one, asked = a_slice(100)
    one.charge(50)
    assert (one.remaining, asked) == (50, [])
    one.charge(1)
    assert (one.remaining, asked) == (49, [0])
    one.charge(1)
    assert (one.remaining, asked) == (48, [0])
    one.on_granted(2)
    one.charge(1)
    assert (one.remaining, asked) == (49, [0, 0])


def test_the_largest_reservation_that_waits_is_what_is_asked_for() -> None:
    one, asked = a_slice(0)
    for need in (7, 9, 8):
        one.request(need)
    assert asked == [7, 9, 9]
    one.on_granted(100)
    one.request(1)
    assert asked[-1] == 1


def test_the_bucket_s_no_holds_for_half_a_second_for_as_much_and_more() -> None:
    one, _ = a_slice(0)
    one.on_refused(10, NOON_S)
    assert one.is_refused(10, NOON_S)
    assert one.is_refused(11, NOON_S)
    assert not one.is_refused(9, NOON_S)
    assert one.is_refused(10, NOON_S + 0.49)
    assert not one.is_refused(10, NOON_S + 0.5)


def test_the_bucket_s_no_ends_with_the_window() -> None:
    one, _ = a_slice(0)
    one.on_refused(10, one.ends_s - 0.25)
    assert not one.is_refused(10, one.ends_s)


def test_one_who_is_refused_hears_when_the_window_ends() -> None:
    one, _ = a_slice(0)
    one.is_refused(1, NOON_S + 1.5)
    assert one.find_wait_ms() == HOUR_S * 1000 - 1500
    one.is_refused(1, one.ends_s + 1)
    assert one.find_wait_ms() == 0


@pytest.mark.parametrize("answer", ["granted", "refused", "released"])
async def test_every_answer_of_the_bucket_ends_the_waiting(answer: str) -> None:
    one, _ = a_slice(0)
    await SliceShort([one]).wait()  # nothing is asked for
    one.request(7)
    waiting = asyncio.create_task(SliceShort([one]).wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    if answer == "granted":
        one.on_granted(7)
    elif answer == "refused":
        one.on_refused(7, NOON_S)
    else:
        one.answer()
    await waiting
    assert (one.is_asked, one.need) == (False, 0)


async def test_a_bucket_without_an_answer_is_said_to_be_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("router.budgets.model.reserving.WAIT_S", 0.01)
    one, _ = a_slice(0)
    one.request(7)
    with pytest.raises(BrokerUnavailable):
        await SliceShort([one]).wait()


def a_table(*budgets: Budget, remaining: int) -> BudgetTable:
    table = BudgetTable("life", 0.1, lambda: NOON_S)
    table.replace(budgets)
    for one in table.slices.values():
        one.remaining, one.ends_s = remaining, NOON_S + HOUR_S
    return table


def test_an_invocation_is_charged_to_all_its_budgets_and_gives_back_what_it_did_not_need() -> None:
    day, month = (Budget(tenant_id="acme", amount=1000, window=name) for name in ("day", "month"))
    other = Budget(tenant_id="acme", amount=1000, window="day", provider_id="other")
    table = a_table(day, month, other, remaining=100)
    charge = table.tenants["acme"].reserve_amount(30, "chat", "openai")
    assert isinstance(charge, Charge)
    assert {one.budget.budget_id: one.remaining for one in table.slices.values()} == {
        "day": 70,
        "month": 70,
        "day/provider=other": 100,
    }
    next(one for one in table.slices.values() if one.budget.budget_id == "day").number += 1
    charge.release()
    assert {one.budget.budget_id: one.remaining for one in table.slices.values()} == {
        # its lease is another one by now: it has ended with what was reserved
        "day": 70,
        "month": 100,
        "day/provider=other": 100,
    }


def test_where_one_budget_has_no_room_nothing_is_reserved_and_that_one_is_asked_for() -> None:
    day, month = (Budget(tenant_id="acme", amount=1000, window=name) for name in ("day", "month"))
    table = a_table(day, month, remaining=100)
    asked: list[str] = []
    table.on_asked = lambda one: asked.append(one.budget.window)
    small = next(one for one in table.slices.values() if one.budget.window == "month")
    small.remaining = 29
    with pytest.raises(SliceShort):
        table.tenants["acme"].reserve_amount(30, "chat", "openai")
    assert asked == ["month"]
    small.on_refused(30, NOON_S)
    assert table.tenants["acme"].reserve_amount(30, "chat", "openai") == [small]
    assert sorted(one.remaining for one in table.slices.values()) == [29, 100]


def test_a_budget_that_is_passed_over_is_not_charged_and_the_others_are() -> None:
    day, month = (Budget(tenant_id="acme", amount=1000, window=name) for name in ("day", "month"))
    table = a_table(day, month, remaining=10**9)
    spent, other = (
        next(one for one in table.slices.values() if one.budget.window == name)
        for name in ("day", "month")
    )
    spent.remaining = 0
    decision = Decision("openai", "weighted", 50, 500, 0.1, {})
    request = a_request("r-1")
    assert table.tenants["acme"].reserve(request, "chat", decision, [spent]) == ()
    assert (spent.remaining, other.remaining) == (0, 10**9 - 10**8 - 1)


def test_a_slice_is_its_share_of_the_amount_and_never_nothing() -> None:
    table = a_table(
        Budget(tenant_id="acme", amount=1000, window="day"),
        Budget(tenant_id="acme", amount=9, window="hour"),
        remaining=0,
    )
    assert {one.budget.window: one.size for one in table.slices.values()} == {"day": 100, "hour": 1}


def test_a_tenant_has_sixteen_budgets_the_first_by_name() -> None:
    names = [f"p{number:02}" for number in range(18)]
    budgets = [
        Budget(tenant_id="acme", amount=1, window="day", policy_id=name) for name in names[::-1]
    ]
    table = a_table(*budgets, Budget(tenant_id="other", amount=1, window="day"), remaining=0)
    kept = [one.budget.policy_id for one in table.tenants["acme"].slices]
    assert kept == names[:16]
    assert len(table.tenants["other"].slices) == 1


def test_a_budget_that_is_changed_keeps_its_slice_and_one_made_anew_has_a_new_one() -> None:
    table = a_table(Budget(tenant_id="acme", amount=1000, window="day"), remaining=50)
    table.replace([Budget(tenant_id="acme", amount=2000, window="day")])
    (one,) = table.slices.values()
    assert (one.remaining, one.size, one.budget.amount) == (50, 200, 2000)
    table.replace([Budget(tenant_id="acme", amount=2000, window="day", created_ms=1)])
    assert [one.remaining for one in table.slices.values()] == [0]
    table.replace([])
    assert (dict(table.slices), table.tenants) == ({}, {})


def test_the_charge_of_a_decision_is_taken_once() -> None:
    table = a_table(Budget(tenant_id="acme", amount=1000, window="day"), remaining=100)
    assert table.take_charge(a_request("r-1")) is None


@pytest.mark.parametrize(
    ("window", "starts", "ends"),
    [
        # 2028-02-29T13:14:15Z
        ("hour", 1_835_442_000, 1_835_445_600),
        ("day", 1_835_395_200, 1_835_481_600),
        ("month", 1_832_976_000, 1_835_481_600),
    ],
)
def test_a_window_begins_and_ends_with_its_hour_day_or_month(
    window: str, starts: int, ends: int
) -> None:
    found = find_window(window, 1_835_442_855.5)
    assert (found.starts_s, found.ends_s) == (starts, ends)
    assert find_window(window, starts) == found
    assert find_window(window, ends).starts_s == ends
