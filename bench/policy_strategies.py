"""What does a choice by learned figures cost more than one by weight? The handler's choice: states,
figures, engine; no session.
"""

from __future__ import annotations

from bench.process import figures_of
from bench.question import Figure, Measured, Question, Side, at_most, sized

CHOICES = 200_000


async def strategies(scale: float) -> Measured:
    return await figures_of("bench.sides.alone", "strategies", count=sized(CHOICES, scale))


QUESTION = Question(
    name="policy_strategies",
    asks="What does a choice by learned figures cost more than one by weight?",
    sides=(Side("router", strategies),),
    figures=(
        Figure("least_latency_more_us", "µs more, least_latency", target=at_most(2)),
        Figure("cheapest_more_us", "µs more, cheapest", target=at_most(2)),
    ),
    lasts=(1.0, 3.0),
    unaffected="no server",
)
