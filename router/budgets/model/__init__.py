"""Budgets: what a tenant may spend in a window, and the slices from which this instance decides
(docs/reference/budgets.md). Pure.

Budget, parse_budget    the document
find_window             which hour, day or month a time is in
BudgetTable             the slices of this instance, by tenant; a decision reserves from them
spent_record            what becomes of the shared document: grant, return, settle, expire
"""

from router.budgets.model.budget import Budget, BudgetError, BudgetWindow, find_window, parse_budget
from router.budgets.model.reserving import (
    BudgetSlice,
    BudgetTable,
    Charge,
    SliceShort,
    TenantBudgets,
)
from router.budgets.model.spent_record import (
    LeaseGrant,
    book_costs,
    expire_leases,
    grant_lease,
    move_lease,
    open_next_window,
    return_lease,
)

__all__ = [
    "Budget",
    "BudgetError",
    "BudgetSlice",
    "BudgetTable",
    "BudgetWindow",
    "Charge",
    "LeaseGrant",
    "SliceShort",
    "TenantBudgets",
    "book_costs",
    "expire_leases",
    "find_window",
    "grant_lease",
    "move_lease",
    "open_next_window",
    "parse_budget",
    "return_lease",
]
