"""What does the policy engine alone cost? Three providers, weights and sticky sessions, no trace;
nothing around it.
"""

from __future__ import annotations

from bench.process import figures_of
from bench.question import Figure, Measured, Question, Side, at_most, sized

EVALUATIONS = 200_000


async def engine(scale: float) -> Measured:
    return await figures_of("bench.sides.alone", "engine", count=sized(EVALUATIONS, scale))


QUESTION = Question(
    name="policy_engine",
    asks="What does the policy engine alone cost?",
    sides=(Side("router", engine),),
    figures=(
        Figure("sticky_us", "µs, sticky hit", target=at_most(3)),
        Figure("draw_us", "µs, draw", target=at_most(6)),
        Figure("sticky_blocks", "blocks of memory that a decision leaves, sticky hit"),
        Figure("draw_blocks", "blocks of memory that a decision leaves, draw"),
        Figure("sticky_bytes", "bytes held at most while deciding, sticky hit"),
        Figure("draw_bytes", "bytes held at most while deciding, draw"),
    ),
    lasts=(1.0, 2.0),
    unaffected="no server",
)
