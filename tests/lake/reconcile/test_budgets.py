"""What is settled of budgets, against silver."""

from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from router.budgets.model import find_window
from router.budgets.model.reservation import RESERVATION_HEADER
from router.budgets.spent_documents import BudgetSum
from router.lake.reconcile.budgets import check_budgets
from router.lake.reconcile.comparison import ReconcileCheck
from router.lake.reconcile.stream import WarehouseSnapshot
from tests.lake.without_jvm import IN_PROCESS
from tests.support.lake_accounts import CREATED, DAY, Rows, an_account, body, tables_of

COSTS = ["0.25", "0.000000001", "1000000000"]
WINDOW = find_window("day", DAY.timestamp())


def a_sum(settled: int = 1_000_000_000_250_000_001, events: int = 3, **changed: Any) -> BudgetSum:
    fields = {
        "budget_id": "day",
        "policy_id": None,
        "provider_id": None,
        "through": 3,
        "complete": 3,
        "created": CREATED,
        **changed,
    }
    return BudgetSum(
        tenant_id="acme",
        starts_s=WINDOW.starts_s,
        ends_s=WINDOW.ends_s,
        settled=settled,
        events=events,
        **fields,
    )


def some_tables() -> dict[str, Rows]:
    bodies = [body(1), body(2, provider_id="other"), body(3)]
    tables = tables_of(bodies, COSTS)
    tables["bronze"][2]["headers"] = [(RESERVATION_HEADER, "life 10 gold day#1")]
    return tables


def checked(
    path: Path, settled: list[BudgetSum], tables: dict[str, Rows] | None = None
) -> ReconcileCheck:
    return check_budgets(
        IN_PROCESS, WarehouseSnapshot(an_account(path, tables or some_tables()), 1), settled
    )


@pytest.mark.parametrize(
    "one",
    [
        a_sum(),
        a_sum(250_000_001, 2, through=2, complete=2),
        a_sum(1, 1, provider_id="other"),
        a_sum(1_000_000_000_000_000_000, 1, policy_id="gold"),
        a_sum(complete=9),  # what came after the tables' last sequence belongs to others
    ],
)
def test_what_is_settled_exactly_agrees(tmp_path: Path, one: BudgetSum) -> None:
    assert checked(tmp_path, [one]).verdict == "ok"


@pytest.mark.parametrize(
    "one",
    [
        a_sum(1_000_000_000_250_000_000),
        a_sum(events=2),
        # it says that it knows all up to the third, and has not settled it
        a_sum(250_000_001, 2, through=2),
        a_sum(provider_id="other"),
        a_sum(policy_id="gold"),
    ],
)
def test_what_is_not_is_named(tmp_path: Path, one: BudgetSum) -> None:
    check = checked(tmp_path, [a_sum(), one])
    assert (check.verdict, check.figures["differ"], len(check.ids)) == ("differs", 1, 1)
    assert check.ids[0].startswith("acme day from ")


@pytest.mark.parametrize(
    ("marks", "one"),
    [
        ({"correlated": False}, a_sum(250_000_001, 2)),
        ({"correlated": False}, a_sum(0, 0, policy_id="gold")),
        ({"budget": "month", "adjustment": "budget"}, a_sum(250_000_001, 2)),
        ({"budget": "day", "adjustment": "budget"}, a_sum()),
        (
            {"budget": "day", "adjustment": "budget"},
            a_sum(1_000_000_000_000_000_001, 2, provider_id="other"),
        ),
        (
            {"budget": "day", "adjustment": "budget"},
            a_sum(1_000_000_000_000_000_000, 1, policy_id="silver"),
        ),
        ({"adjustment": "bill"}, a_sum()),
    ],
)
def test_marked_cost_is_in_no_budget_and_an_adjustment_in_the_one_that_it_names(
    tmp_path: Path, marks: dict[str, Any], one: BudgetSum
) -> None:
    """UL-39, UL-40: the third event is of the provider `openai`, by the policy `gold`."""
    tables = some_tables()
    tables["silver"][2] |= marks
    assert checked(tmp_path, [one], tables).verdict == "ok"


def test_an_adjustment_below_zero_is_settled_to_the_last_decimal(tmp_path: Path) -> None:
    tables = some_tables()
    tables["silver"][2] |= {"adjustment": "bill", "cost": Decimal("-0.250000002")}
    assert checked(tmp_path, [a_sum(-1)], tables).verdict == "ok"


def test_a_window_ends_where_the_next_one_begins(tmp_path: Path) -> None:
    tables = some_tables()
    tables["silver"][0]["time"] = DAY + timedelta(days=1)
    assert checked(tmp_path, [a_sum(1_000_000_000_000_000_001, 2)], tables).verdict == "ok"


def test_a_window_that_is_ahead_of_the_tables_is_not_compared(tmp_path: Path) -> None:
    check = checked(tmp_path, [a_sum(1, 1, through=4, complete=4)])
    assert check.verdict == "skipped"


@pytest.mark.parametrize(
    "one", [a_sum(1, 1, created="2026-11-21T00:00:00Z"), a_sum(1, 1, is_mixed=True)]
)
def test_a_window_that_another_stream_was_counted_into_is_not_compared(
    tmp_path: Path, one: BudgetSum
) -> None:
    assert checked(tmp_path, [one]).verdict == "skipped"


def test_a_window_that_began_before_the_tables_is_not_compared(tmp_path: Path) -> None:
    tables = some_tables()
    for row in (*tables["bronze"], *tables["silver"]):
        row["seq"] = int(str(row["seq"])) + 5
    assert checked(tmp_path, [a_sum(through=8, complete=8)], tables).verdict == "skipped"
