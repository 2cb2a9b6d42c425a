"""What does the choice of a provider cost where averages are learned, or a breaker is open? Against
a tenant of which nothing is known.

The choice is the handler's: the session, the states of the tenant's providers, the engine. States
change seldom beside requests, so they stand still here.
"""

from __future__ import annotations

from functools import partial

from bench.process import figures_of
from bench.question import Figure, Measured, Question, Side, at_most, sized

CHOICES = 100_000


async def choose(scale: float, *, states: str) -> Measured:
    return await figures_of(
        "bench.sides.alone", "choose", count=sized(CHOICES, scale), states=states
    )


QUESTION = Question(
    name="policy_states",
    asks="What does a choice cost with learned averages, and with an open breaker?",
    sides=(
        Side("averages", partial(choose, states="averages")),
        Side("open breaker", partial(choose, states="breaker")),
        Side("no states", partial(choose, states="none")),
    ),
    figures=(
        Figure("choose_us", "µs, averages", against="no states", target=at_most(1.3)),
        Figure(
            "choose_us",
            "µs, open breaker",
            of="open breaker",
            against="no states",
            target=at_most(1.3),
        ),
    ),
    lasts=(1.0, 3.0),
    unaffected="no server",
)
