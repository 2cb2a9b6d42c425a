"""What leases hold of a budget's amount: never more than there is, and nothing is lost on the way."""

import pytest

from router.budgets.model.spent_record import (
    MAX_LEASES,
    BookedCost,
    SpentLease,
    SpentRecord,
    book_costs,
    expire_leases,
    grant_lease,
    move_lease,
    return_lease,
)


def a_record(settled: int = 0, **held: int) -> SpentRecord:
    """Its leases all expire at 1000 ms."""
    leases = {name: SpentLease(nanos, 1000) for name, nanos in held.items()}
    return SpentRecord(is_counted=True, timeline="first", settled=settled, leases=leases)


def test_a_lease_gets_what_it_asks_for_and_the_others_may_have_the_rest() -> None:
    grant = grant_lease(a_record(20, a=30), 100, "b", SpentLease(40, 2000), least=1)
    assert (grant.granted, grant.left) == (40, 10)
    assert grant.record.leases == {"a": SpentLease(30, 1000), "b": SpentLease(40, 2000)}


def test_a_lease_that_is_there_holds_more_and_longer() -> None:
    grant = grant_lease(a_record(a=30), 100, "a", SpentLease(40, 2000), least=1)
    assert grant.record.leases == {"a": SpentLease(70, 2000)}


def test_all_leases_together_hold_no_more_than_is_not_spent() -> None:
    grant = grant_lease(a_record(20, a=30), 100, "b", SpentLease(60, 2000), least=1)
    assert (grant.granted, grant.left, grant.record.held) == (50, 0, 80)


@pytest.mark.parametrize(("settled", "left"), [(70, 0), (71, 0), (200, 0)])
def test_of_a_budget_that_is_spent_nothing_is_granted(settled: int, left: int) -> None:
    record = a_record(settled, a=30)
    grant = grant_lease(record, 100, "b", SpentLease(10, 2000), least=0)
    assert (grant.record, grant.granted, grant.left) == (record, 0, left)


def test_less_than_the_waiting_decision_needs_is_not_granted_and_stays_for_others() -> None:
    record = a_record(95)
    refused = grant_lease(record, 100, "a", SpentLease(10, 2000), least=6)
    assert (refused.record, refused.granted, refused.left) == (record, 0, 5)
    assert grant_lease(record, 100, "a", SpentLease(10, 2000), least=5).granted == 5


def test_a_document_holds_so_many_leases_and_no_more() -> None:
    full = a_record(**{f"l{number}": 1 for number in range(MAX_LEASES)})
    assert grant_lease(full, 10**6, "one-more", SpentLease(1, 2000), least=1).granted == 0
    assert grant_lease(full, 10**6, "l0", SpentLease(1, 2000), least=1).granted == 1
    room = a_record(**{f"l{number}": 1 for number in range(MAX_LEASES - 1)})
    assert grant_lease(room, 10**6, "one-more", SpentLease(1, 2000), least=1).granted == 1


def test_what_moves_to_a_later_lease_leaves_the_earlier_one() -> None:
    record, moved = move_lease(a_record(a=30, b=5), "a", "b", SpentLease(20, 3000))
    assert moved == 20
    assert record.leases == {"a": SpentLease(10, 1000), "b": SpentLease(25, 3000)}


def test_no_more_moves_than_the_earlier_lease_holds() -> None:
    record, moved = move_lease(a_record(a=30), "a", "b", SpentLease(31, 3000))
    assert moved == 30
    assert record.leases == {"a": SpentLease(0, 1000), "b": SpentLease(30, 3000)}


@pytest.mark.parametrize(("held", "asked"), [({}, 5), ({"a": 0}, 5), ({"a": 5}, 0)])
def test_of_a_lease_that_has_ended_nothing_moves(held: dict[str, int], asked: int) -> None:
    record = a_record(**held)
    assert move_lease(record, "a", "b", SpentLease(asked, 3000)) == (record, 0)


def test_one_nano_moves_too() -> None:
    assert move_lease(a_record(a=1), "a", "b", SpentLease(9, 3000))[1] == 1


@pytest.mark.parametrize(("back", "held"), [(1, 29), (30, 0), (31, 0)])
def test_a_lease_that_gives_back_holds_less_and_never_below_nothing(back: int, held: int) -> None:
    assert return_lease(a_record(a=30), "a", back).leases == {"a": SpentLease(held, 1000)}


def test_what_was_never_held_is_not_given_back() -> None:
    record = a_record(a=30)
    assert return_lease(record, "b", 5) is record
    assert return_lease(record, "a", 0) is record
    assert return_lease(record, "a", -5) is record


def test_a_lease_ends_at_its_time_and_when_it_holds_nothing() -> None:
    record = a_record(a=30, b=0)
    assert expire_leases(record, 999).leases == {"a": SpentLease(30, 1000)}
    assert expire_leases(record, 1000).leases == {}
    only = a_record(a=30)
    assert expire_leases(only, 999) is only


def test_an_event_of_more_than_its_lease_holds_takes_nothing_from_the_others() -> None:
    cost = BookedCost(1, 10, 7, lease_id="a", reserved=50)
    assert book_costs(a_record(a=30, b=9), "first", [cost]).leases == {
        "a": SpentLease(0, 1000),
        "b": SpentLease(9, 1000),
    }


def test_adjustments_are_counted_beside_what_they_change() -> None:
    costs = [
        BookedCost(1, 10, 7),
        BookedCost(2, 20, -3, is_adjustment=True),
        BookedCost(3, 30, -1, is_adjustment=True),
    ]
    record = book_costs(a_record(), "first", costs)
    assert (record.settled, record.events, record.adjusted, record.adjustments) == (3, 3, -4, 2)
    again = book_costs(record, "first", [BookedCost(4, 40, -1, is_adjustment=True)])
    assert (again.settled, again.events, again.adjusted, again.adjustments) == (2, 4, -5, 3)
