"""Which usage events a budget counts, and what each of them ends
(docs/reference/budgets.md#settlement). Pure.

an outcome                      in every budget of its tenant, provider and policy; its first event
                                ends its reservation
an adjustment                   in the same budgets, with its signed cost; it ends nothing
an adjustment `budget`          in the one budget that it names
an outcome that is marked       in none: its assignment is not known, so a worker's word is all that
                                there is of it
"""

from __future__ import annotations

from router.budgets.model.budget import Budget
from router.budgets.model.leases import SettledCost
from router.budgets.model.reservation import BudgetReservation
from router.contracts.usage_cost import UsageCost

OF_ONE_BUDGET = "budget"  # the adjustment that is no money of a bill


def is_spending(cost: UsageCost) -> bool:
    """Whether it counts in any budget at all."""
    return cost.is_correlated or cost.adjustment is not None


def is_counted(budget: Budget, cost: UsageCost, reservation: BudgetReservation | None) -> bool:
    """Whether this budget counts it; by which policy was decided stands in the header of the event."""
    if cost.tenant_id != budget.tenant_id or not is_spending(cost):
        return False
    if cost.adjustment == OF_ONE_BUDGET:
        return cost.budget == budget.budget_id
    policy_id = reservation.policy_id if reservation is not None else None
    return budget.provider_id in (None, cost.provider_id) and budget.policy_id in (None, policy_id)


def make_settled_cost(
    budget: Budget,
    cost: UsageCost,
    sequence: int,
    stored_ns: int,
    *,
    ended: BudgetReservation | None = None,
) -> SettledCost:
    """What the budget's document takes of it; `ended`: the reservation that ends with it."""
    number = ended.leases.get(budget.budget_id) if ended is not None else None
    lease_id = f"{ended.life}.{number}" if ended is not None and number is not None else None
    reserved = ended.nanos if ended is not None else 0
    return SettledCost(
        sequence, stored_ns, cost.nanos, lease_id, reserved, cost.adjustment is not None
    )
