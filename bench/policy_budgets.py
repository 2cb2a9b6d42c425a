"""What does a decision of a tenant with a budget cost more? The handler's choice of a pushed
request; its slice is large enough.
"""

from __future__ import annotations

from bench.process import figures_of
from bench.question import Figure, Measured, Question, Side, at_most, sized

CHOICES = 200_000


async def budgets(scale: float) -> Measured:
    return await figures_of("bench.sides.budgets", "choose_within", count=sized(CHOICES, scale))


QUESTION = Question(
    name="policy_budgets",
    asks="What does a decision cost more where its tenant, or another one, has a budget?",
    sides=(Side("router", budgets),),
    figures=(
        Figure("with_budget_more_us", "µs more, a budget of its tenant", target=at_most(2)),
        Figure("of_others_more_us", "µs more, budgets of other tenants"),
    ),
    lasts=(1.0, 3.0),
    unaffected="no server",
)
