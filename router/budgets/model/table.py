"""The budgets of all tenants in this instance, and its slices of them.

`tenants` is one dictionary for as long as the process lives: a decision of a tenant without a
budget pays one look into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from router.budgets.model.budget import Budget
from router.budgets.model.reserving import LEAST_SHARE, Charge, TenantBudgets
from router.budgets.model.slices import BudgetSlice
from router.contracts.request import RouteRequest
from router.core.clock import Clock

MAX_CHARGES = 20_000  # of requests whose assignment is being stored
MAX_BUDGETS = 16  # of a tenant

Key = tuple[str, str, int]  # tenant, budget, when it was made


class BudgetTable:
    """`life` names this instance's leases. `share`: a slice's part of the amount. `clock`: the
    server's, seconds since the epoch.

    `least_share`: the part of the listed cost that a decision reserves at least, whatever was
    learned.
    """

    def __init__(
        self, life: str, share: float, clock: Clock, least_share: float = LEAST_SHARE
    ) -> None:
        self.life = life
        self.tenants: dict[str, TenantBudgets] = {}
        self._share = share
        self._clock = clock
        self._least_share = least_share
        self._slices: dict[Key, BudgetSlice] = {}
        self._charges: dict[tuple[str, str], Charge] = {}  # by tenant and request
        self.on_asked: Callable[[BudgetSlice], None] = lambda _: None

    @property
    def slices(self) -> Mapping[Key, BudgetSlice]:
        return self._slices

    def replace(self, budgets: Iterable[Budget]) -> None:
        """All budgets. The slices of those that stay are kept; beyond 16 of a tenant, the first by
        name count.
        """
        before, self._slices = self._slices, {}
        by_tenant: dict[str, list[BudgetSlice]] = {}
        for budget in sorted(budgets, key=lambda one: (one.tenant_id, one.budget_id)):
            mine = by_tenant.setdefault(budget.tenant_id, [])
            if len(mine) < MAX_BUDGETS:
                mine.append(self._keep(before, budget))
        self.tenants.clear()
        for tenant_id, slices in by_tenant.items():
            self.tenants[tenant_id] = TenantBudgets(
                self.life, slices, self._clock, self._on_charge, self._least_share
            )
        # What waits for a budget that is gone is decided without it.
        for key in before.keys() - self._slices.keys():
            before[key].answer()

    def take_charge(self, request: RouteRequest) -> Charge | None:
        """What the decision of this request has reserved, for its assignment; once."""
        return (
            self._charges.pop((request.tenant_id, request.request_key), None)
            if self._charges
            else None
        )

    def _keep(self, before: Mapping[Key, BudgetSlice], budget: Budget) -> BudgetSlice:
        key = budget.tenant_id, budget.budget_id, budget.created_ms
        size = max(1, int(budget.amount * self._share))
        one = before.get(key) or BudgetSlice(budget, size, self._ask)
        one.budget, one.size = budget, size
        self._slices[key] = one
        return one

    def _ask(self, one: BudgetSlice) -> None:
        self.on_asked(one)

    def _on_charge(self, request: RouteRequest, charge: Charge) -> None:
        if len(self._charges) >= MAX_CHARGES:  # the oldest ends with its lease
            del self._charges[next(iter(self._charges))]
        self._charges[request.tenant_id, request.request_key] = charge
