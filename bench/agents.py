"""How fast does an agent work through its commands? Stored first; each a state update and one outgoing message, every commit synced.

From a tenth of them on to the last acknowledgement. The yardstick is the same adapter on the same store, one command at a time:
persist, apply, publish, wait for the publish ack, acknowledge, wait until the server has heard it.
"""

from __future__ import annotations

import asyncio
import tempfile
from functools import partial

from bench.broker import a_broker, jetstream_on
from bench.process import figures_of
from bench.question import Broken, Figure, Measured, Question, Side, at_least, sized

COMMANDS = 60_000
ONE_BY_ONE = 4_000
PATIENCE_TURNS = 40


async def _worked(side: str, full: int, scale: float) -> Measured:
    count = sized(full, scale)
    with tempfile.TemporaryDirectory(prefix="router-bench-") as home:
        async with a_broker() as url:
            await figures_of("bench.sides.agents", "fill", url=url, count=count)
            figures = await figures_of("bench.sides.agents", side, url=url, store=f"{home}/a.db", first=count // 10, last=count)
            await _all_done(url, count)
            return figures


async def _all_done(url: str, count: int) -> None:
    """Broken unless every command is acknowledged and has its one message: a rate of work not done is none."""
    async with jetstream_on(url) as jetstream:
        for _ in range(PATIENCE_TURNS):
            commands = await jetstream.stream("MESHFORGE_COMMANDS") or {}
            events = await jetstream.stream("MESHFORGE_EVENTS") or {}
            left, said = commands["state"]["messages"], events["state"]["messages"]
            if (left, said) == (0, count):
                return
            await asyncio.sleep(0.05)
    raise Broken(f"of {count} commands, {left} were not acknowledged; {said} messages are stored")


QUESTION = Question(
    name="agents",
    asks="How fast does an agent work through its commands?",
    sides=(
        Side("agent", partial(_worked, "agent", COMMANDS)),
        Side("one by one", partial(_worked, "one_by_one", ONE_BY_ONE)),
    ),
    figures=(
        Figure("rate", "commands/s", target=at_least(10_000)),
        Figure("rate", "commands/s", against="one by one", target=at_least(8)),
    ),
    lasts=(5.0, 22.0),
)
