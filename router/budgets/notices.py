"""Alerts when a budget's window is 80 % spent, and when it has no room
(docs/reference/budgets.md#notices).
"""

from __future__ import annotations

from msgspec.structs import replace

from router.budgets.model import Budget, BudgetWindow
from router.budgets.model.spent_record import SpentRecord
from router.contracts.alert import WARNING, Alert
from router.contracts.money import format_nanos
from router.core.clock import format_second
from router.operate.alerts import Alerts

ALMOST, FULL = 80, 100  # percent


def find_notices(record: SpentRecord, amount: int, *, has_no_room: bool = False) -> tuple[int, ...]:
    """Those that are due and were not given yet."""
    due = (ALMOST,) if record.settled * 100 >= amount * ALMOST else ()
    if has_no_room or record.settled >= amount:
        due = (*due, FULL)
    return tuple(percent for percent in due if percent not in record.notices)


def forget_notices(before: SpentRecord, after: SpentRecord, amount: int) -> SpentRecord:
    """Where adjustments took more off than was spent: without the notices that no longer hold, so
    that they are given again.
    """
    if after.settled >= before.settled:
        return after
    return replace(
        after,
        notices=tuple(
            percent for percent in after.notices if after.settled * 100 >= amount * percent
        ),
    )


def mark_notices(record: SpentRecord, notices: tuple[int, ...]) -> SpentRecord:
    """With these given."""
    return replace(record, notices=(*record.notices, *notices)) if notices else record


def raise_notices(
    alerts: Alerts,
    budget: Budget,
    window: BudgetWindow,
    record: SpentRecord,
    notices: tuple[int, ...],
) -> None:
    """After the record that says so is stored: each is given once for a window."""
    for percent in notices:
        text = f"{percent} % of it is spent" if percent < FULL else "it has no room"
        alerts.raise_alert(
            Alert(
                severity=WARNING,
                component="router.budgets",
                cause=f"budget_{percent}:{budget.tenant_id}:{budget.budget_id}:{window.starts_s}",
                message=f"Budget {budget.budget_id} of tenant {budget.tenant_id}: {text}",
                metadata={
                    "tenant_id": budget.tenant_id,
                    "budget": budget.budget_id,
                    "percent": percent,
                    "amount": format_nanos(budget.amount),
                    "settled": format_nanos(record.settled),
                    "renews_at": format_second(window.ends_s),
                },
            )
        )
