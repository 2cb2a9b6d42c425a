"""How fast are dead letters sent again? From the first look at the journal to the last one removed,
each message proven to stand there.

Ten thousand dead letters with payloads of some hundred bytes, to a stream that acknowledges
(results) and to one that does not (decide), where the proof is the message itself. The yardstick
publishes and waits for PubAcks alike, and removes nothing.
"""

from __future__ import annotations

from bench.broker import a_broker
from bench.process import figures_of
from bench.question import Figure, Measured, Question, Side, at_least, sized
from bench.stored import StoredWork, all_of_them, check_nothing

DEAD_LETTERS = StoredWork("dead_letters.fill", 10_000, check_nothing)


async def bare(scale: float) -> Measured:
    count = sized(DEAD_LETTERS.full, scale)
    async with a_broker() as url:
        return await figures_of("bench.sides.dead_letters", "publish", url=url, count=count)


QUESTION = Question(
    name="dlq_replay",
    asks="How fast are dead letters sent again?",
    sides=(
        DEAD_LETTERS.side("router", "dead_letters.replay", all_of_them, fill={"to": "results"}),
        DEAD_LETTERS.side(
            "router, no_ack", "dead_letters.replay", all_of_them, fill={"to": "decide"}
        ),
        Side("publish alone", bare),
    ),
    figures=(
        Figure("rate", "dead letters/s", target=at_least(5_000)),
        Figure("rate", "dead letters/s", against="router, no_ack"),
        Figure("rate", "dead letters/s", against="publish alone"),
    ),
    lasts=(4.0, 8.0),
)
