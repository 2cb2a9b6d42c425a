"""What does a store of a million events cost? Memory while it grows, and the time to open it again;
no broker.
"""

from __future__ import annotations

import tempfile

from bench.process import figures_of
from bench.question import Figure, Measured, Question, Side, at_most, sized

EVENTS = 1_000_000


async def agent(scale: float) -> Measured:
    with tempfile.TemporaryDirectory(prefix="router-bench-") as home:
        return await figures_of(
            "bench.sides.agents",
            "large",
            patience_s=1800.0,
            store=f"{home}/a.db",
            events=sized(EVENTS, scale, 10_000),
        )


QUESTION = Question(
    name="agents_large",
    asks="What does a store of a million events cost?",
    sides=(Side("agent", agent),),
    figures=(
        Figure("open_s", "seconds to open", target=at_most(1)),
        Figure("growth_mib", "MiB from the second fifth on", target=at_most(16)),
        Figure("rate", "events/s"),
    ),
    lasts=(1.0, 110.0),
    # a store that grows for minutes; what it costs at a fifth and in the end is compared within it
    most_rounds=1,
    unaffected="no server",
)
