"""What a request gets whose budgets have no room: the refusal, or the policy that they name
(docs/reference/budgets.md#decision).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from router.budgets.model import BudgetSlice
from router.contracts.decision import BUDGET_EXCEEDED, DOWNGRADED_BY, Decision, Refusal
from router.contracts.money import format_nanos

MAX_MARKED = 1024


def find_downgrade(refused: Sequence[BudgetSlice]) -> str | None:
    """The policy that all of them name; None: one of them denies, or they name several."""
    named = {one.budget.downgrade_to for one in refused}
    return named.pop() if len(named) == 1 else None


def refuse_for_budget(refused: Sequence[BudgetSlice]) -> Refusal:
    """The refusal by the first of them that denies, else by the first."""
    one = next((one for one in refused if one.budget.downgrade_to is None), refused[0])
    budget = one.budget
    details = {
        "budget": budget.budget_id,
        "amount": format_nanos(budget.amount),
        "left": format_nanos(one.left or 0),
        "window": budget.window,
        "renews_at": datetime.fromtimestamp(one.ends_s, UTC).isoformat().replace("+00:00", "Z"),
        "retry_after_ms": one.find_wait_ms(),
    }
    return Refusal(BUDGET_EXCEEDED, "A budget of this tenant has no room for this request", details)


class Downgrades:
    """Decisions by another policy than the request's say which budget it was. A policy's decisions
    are few, and so are these.
    """

    def __init__(self) -> None:
        # with the decision itself: its id is not reused
        self._marked: dict[tuple[int, str], tuple[Decision, Decision]] = {}

    def mark(self, decision: Decision, budget_id: str) -> Decision:
        key = id(decision), budget_id
        known = self._marked.get(key)
        if known is None:
            if len(self._marked) >= MAX_MARKED:
                self._marked.clear()
            known = (
                decision,
                replace(decision, metadata={**decision.metadata, DOWNGRADED_BY: budget_id}),
            )
            self._marked[key] = known
        return known[1]
