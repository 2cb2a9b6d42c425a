"""Choices of a tenant with a budget beside those of one without, in turn in one process. CPU µs a
choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median

import orjson
from msgspec.structs import replace

from bench import requests
from bench.broker import POLICIES
from bench.child import Ready
from bench.question import Measured
from bench.sides.alone import KEPT, TURNS, make_request, time_each
from bench.sides.choosing import make_chooser
from bench.stretch import MIB, peak_bytes
from router.budgets.model import Budget, BudgetTable, TenantBudgets
from router.contracts.decision import RouteRequest
from router.core.clock import steady
from router.policies.model import load_policy

Choose = Callable[[RouteRequest], object]


async def choose_within(ready: Ready, *, count: int) -> Measured:
    """What a choice costs more with a budget of its tenant, and with those of others; the median of
    the differences.
    """
    asked = [replace(make_request(number), push_assignment=True) for number in range(KEPT)]
    without, mine, others = (
        _choose_by(None),
        _choose_by(_make_table(requests.TENANT)),
        _choose_by(_make_table("another")),
    )
    more: dict[str, list[float]] = {"with_budget_more_us": [], "of_others_more_us": []}
    for _ in range(TURNS):
        base = time_each(without, asked, count // TURNS)
        more["with_budget_more_us"].append(time_each(mine, asked, count // TURNS) - base)
        more["of_others_more_us"].append(time_each(others, asked, count // TURNS) - base)
    return {
        **{name: median(values) for name, values in more.items()},
        "peak_mib": peak_bytes() / MIB,
    }


def _make_table(tenant_id: str) -> BudgetTable:
    """One budget, whose slice holds more than all choices reserve."""
    table = BudgetTable("bench", 0.01, steady)
    table.replace([Budget(tenant_id=tenant_id, amount=10**18, window="month")])
    for slice_ in table.slices.values():
        slice_.ends_s = int(steady()) + 1_000_000
        slice_.on_granted(10**17)
    return table


def _choose_by(table: BudgetTable | None) -> Choose:
    """As the handler and the pusher do it: choose, then take what is reserved for the assignment."""
    document = orjson.loads((POLICIES / "_shared/default.json").read_bytes())
    policy = load_policy(orjson.dumps({**document, "sticky": None}), "_shared", "default").policy
    tenants: Mapping[str, TenantBudgets] = table.tenants if table is not None else {}
    chooser = make_chooser(budgets=tenants)
    if table is None:
        return lambda request: chooser.choose(policy, request, steady(), None)

    def choose(request: RouteRequest) -> object:
        chosen = chooser.choose(policy, request, steady(), None)
        table.take_charge(request)
        return chosen

    return choose
