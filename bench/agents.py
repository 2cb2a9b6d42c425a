"""How fast does an agent work through its commands? Stored first; each a state update and one
outgoing message, every commit synced.

From a tenth of them on to the last acknowledgement. The yardstick is the same adapter on the same
store, one command at a time: persist, apply, publish, wait for the publish ack, acknowledge, wait
until the server has heard it.
"""

from __future__ import annotations

from bench.broker import Counts, check_counts
from bench.question import Figure, Question, at_least
from bench.stored import StoredWork
from router.delivery.wire.api import JetStream

ONE_BY_ONE = 4_000


async def _check_done(url: str, count: int) -> None:
    """Broken unless every command is acknowledged and has its one message."""

    async def find(jetstream: JetStream) -> Counts:
        commands = await jetstream.stream("MESHFORGE_COMMANDS") or {}
        events = await jetstream.stream("MESHFORGE_EVENTS") or {}
        return {
            "not acknowledged": commands["state"]["messages"],
            "messages": events["state"]["messages"],
        }

    await check_counts(url, find, {"not acknowledged": 0, "messages": count})


COMMANDS = StoredWork("agents.fill", 60_000, _check_done, has_store=True)


QUESTION = Question(
    name="agents",
    asks="How fast does an agent work through its commands?",
    sides=(
        COMMANDS.side("agent", "agents.agent"),
        COMMANDS.side("one by one", "agents.one_by_one", full=ONE_BY_ONE),
    ),
    figures=(
        Figure("rate", "commands/s", target=at_least(10_000)),
        Figure("rate", "commands/s", against="one by one", target=at_least(8)),
    ),
    lasts=(5.0, 22.0),
)
