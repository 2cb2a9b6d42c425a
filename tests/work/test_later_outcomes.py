"""Which later outcome of an assignment corrects its bill."""

import itertools

import pytest
from msgspec.structs import replace

from router.budgets.model.held_cost import outcome_identity
from router.contracts.usage import UsageEvent, assignment_identity
from router.work.model.result_memory import MeteredEvent, is_same, make_correction, may_follow
from tests.support.usage import a_usage_event
from tests.support.workers import ASSIGNED

STATUSES = ("success", "error", "timeout", "cancelled")
WINDOW_NS = 600 * 10**9


def an_event(status: str = "timeout", cost: float = 0.01, **fields: object) -> UsageEvent:
    ids = {"assignment_id": ASSIGNED, "event_id": assignment_identity("acme", ASSIGNED)}
    return a_usage_event(**{**ids, "timestamp": 5, "status": status, "cost": cost, **fields})


def corrected(
    first: UsageEvent, later: UsageEvent, *, after_ns: int = 0, is_invocation: bool = False
) -> UsageEvent | None:
    return make_correction(
        MeteredEvent(first, 1_000, is_invocation=is_invocation), later, 1_000 + after_ns, WINDOW_NS
    )


@pytest.mark.parametrize(("first", "later"), list(itertools.product(STATUSES, STATUSES)))
def test_only_an_outcome_that_was_not_known_is_replaced_by_one_that_is(
    first: str, later: str
) -> None:
    made = corrected(an_event(first), an_event(later, 0.05))
    is_expected = first in {"timeout", "cancelled"} and later in {"success", "error"}
    assert (made is not None) == is_expected


def test_the_correction_is_the_difference_and_has_one_identity() -> None:
    first = an_event(cost=0.01)
    made = [
        corrected(first, an_event(status, cost))
        for status, cost in (("success", 0.03), ("error", 0.0))
    ]
    assert [one.cost for one in made if one is not None] == [0.02, -0.01]
    assert {one.event_id for one in made if one is not None} == {
        outcome_identity(first.event_id or "")
    }
    assert {(one.adjusts, one.timestamp, one.reason) for one in made if one is not None} == {
        (first.event_id, 5, "timeout, then success"),
        (first.event_id, 5, "timeout, then error"),
    }


def test_the_same_cost_needs_no_correction() -> None:
    assert corrected(an_event(), an_event("success")) is None


def test_an_invocation_stands_whatever_the_worker_says_of_it() -> None:
    first = an_event("success", 0.5, event_type="provider.invoke")
    assert [
        corrected(first, an_event(status, cost), is_invocation=True)
        for status in STATUSES
        for cost in (0.0, 0.5)
    ] == [None] * 8


def test_work_that_cost_more_than_an_invocation_under_its_id_is_billed() -> None:
    """Its tenant may invoke the same provider for next to nothing, and the assignment has its bill."""
    made = corrected(
        an_event("success", 0.01, event_type="provider.invoke"),
        an_event("success", 0.5),
        is_invocation=True,
    )
    assert made is not None
    assert made.cost == 0.49


def test_a_job_that_is_called_as_an_invocation_is_corrected_as_any_other() -> None:
    """Its type is its tenant's word."""
    assert corrected(an_event(event_type="provider.invoke"), an_event("success", 0.5)) is not None


def test_a_held_bill_waits_for_an_operator() -> None:
    assert corrected(an_event(told_cost=1e9), an_event("success", 0.05)) is None


@pytest.mark.parametrize(("after_ns", "is_late"), [(WINDOW_NS, False), (WINDOW_NS + 1, True)])
def test_a_bill_may_be_corrected_for_a_duplicate_window(after_ns: int, is_late: bool) -> None:
    assert (corrected(an_event(), an_event("success", 0.05), after_ns=after_ns) is None) == is_late


def test_a_correction_above_the_bound_is_held_too() -> None:
    made = corrected(an_event(cost=0.5), an_event("success", 2.0, told_cost=100.0))
    assert made is not None
    assert (made.cost, made.told_cost) == (1.5, 99.5)  # both are differences


def test_nothing_follows_a_correction_but_its_notice() -> None:
    plain, held = (
        corrected(an_event(), an_event("success", 0.5, told_cost=told)) for told in (None, 100.0)
    )
    assert plain is not None
    assert held is not None
    assert [may_follow(one) for one in (plain, held, an_event("success"), an_event())] == [
        False,
        True,
        True,
        False,
    ]
    assert corrected(an_event(), plain) is None
    assert corrected(plain, an_event("success", 0.7)) is None


def test_the_stored_event_is_the_same_where_status_and_costs_are() -> None:
    event = an_event("success", 2.0, told_cost=5.0)
    assert is_same(event, replace(event, latency_ms=9, timestamp=7))
    others = ({"status": "error"}, {"cost": 1.0}, {"told_cost": 6.0}, {"adjustment": "outcome"})
    assert not any(is_same(event, replace(event, **other)) for other in others)  # type: ignore[arg-type]
