"""What a decision reserves: the learned cost, but never so little that a few free results open a
budget.
"""

from decimal import Decimal

import pytest

from router.budgets.model import Budget, BudgetTable, SliceShort
from router.budgets.model.reserving import Downgrades
from router.contracts.decision import Decision
from router.contracts.money import NANOS
from tests.support.policy import a_request

NOON_S = 1_800_000_000
AMOUNT = 100 * NANOS


def reserve(cost: float, listed: float | None, samples: int, **table: float) -> Decimal:
    """How much of a slice is gone after one decision."""
    budgets = BudgetTable("life", 1.0, lambda: NOON_S, **table)
    budgets.replace([Budget(tenant_id="acme", amount=AMOUNT, window="month")])
    budgets.on_asked = lambda _: None
    (one,) = budgets.slices.values()
    one.remaining, one.ends_s = AMOUNT, NOON_S + 3600
    decision = Decision("a", "weighted", 50, 500, cost, {}, listed, samples)
    assert budgets.tenants["acme"].reserve(a_request("r-1"), "default", decision) == ()
    return Decimal(AMOUNT - one.remaining - 1).scaleb(-9)  # the nano that no decision goes without


@pytest.mark.parametrize("samples", [0, 1, 19])
@pytest.mark.parametrize("learned", [0.0, 0.001, 0.02])
def test_until_there_are_enough_results_nothing_below_the_listed_cost_is_believed(
    learned: float, samples: int
) -> None:
    assert reserve(learned, 0.02, samples) == Decimal("0.02")


@pytest.mark.parametrize(
    ("learned", "expected"),
    [(0.0, "0.002"), (0.001, "0.002"), (0.005, "0.005"), (0.02, "0.02"), (0.5, "0.5")],
)
def test_then_the_learned_cost_counts_but_for_a_tenth_of_the_listed_one(
    learned: float, expected: str
) -> None:
    assert reserve(learned, 0.02, 20) == Decimal(expected)


def test_the_share_is_a_setting_of_the_table() -> None:
    assert reserve(0.0, 0.02, 20, least_share=1.0) == Decimal("0.02")
    assert reserve(0.0, 0.02, 20, least_share=0.0) == 0


@pytest.mark.parametrize("listed", [0.0, 1e-6, None])
def test_a_policy_that_lists_little_keeps_it(listed: float | None) -> None:
    assert reserve(1e-6, listed, 1) == Decimal("0.000001")


@pytest.mark.parametrize(("remaining", "ends_s"), [(NANOS // 10, NOON_S + 3600), (AMOUNT, NOON_S)])
def test_of_too_little_and_of_a_window_that_is_over_nothing_is_reserved(
    remaining: int, ends_s: int
) -> None:
    budgets = BudgetTable("life", 1.0, lambda: NOON_S)
    budgets.replace([Budget(tenant_id="acme", amount=AMOUNT, window="month")])
    (one,) = budgets.slices.values()
    one.remaining, one.ends_s = remaining, ends_s
    asked = a_request("r-1"), "default", Decision("a", "weighted", 50, 500, 0.1, {})
    with pytest.raises(SliceShort):
        budgets.tenants["acme"].reserve(*asked)
    assert one.remaining == remaining
    one.remaining, one.ends_s = NANOS // 10 + 1, NOON_S + 1
    assert budgets.tenants["acme"].reserve(*asked) == ()
    assert one.remaining == 0


def test_a_higher_cost_is_believed_at_once() -> None:
    assert reserve(3.0, 0.02, 1) == Decimal(3)


def test_a_decision_is_marked_once_for_a_budget_and_stays_as_it_was() -> None:
    marks, decision = Downgrades(), Decision("openai", "best", 50, 800, 0.01, {"a": "b"})
    marked = marks.mark(decision, "month")
    assert marked.metadata == {"a": "b", "downgraded_by": "month"}
    assert marks.mark(decision, "month") is marked
    assert marks.mark(decision, "day").metadata["downgraded_by"] == "day"
    assert decision.metadata == {"a": "b"}
