"""How fast are dead letters sent again? From the first look at the journal to the last one removed, each message proven to stand there.

Ten thousand letters with payloads of some hundred bytes, to a stream that acknowledges (results) and to one that does not
(decide), where the proof is the message itself. The yardstick publishes and waits for PubAcks alike, and removes nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from bench.broker import a_broker
from bench.process import figures_of
from bench.question import Figure, Measured, Question, Side, at_least, sized

LETTERS = 10_000


async def acknowledged(scale: float) -> Measured:
    return await _replayed("results", scale)


async def silent(scale: float) -> Measured:
    return await _replayed("decide", scale)


async def bare(scale: float) -> Measured:
    count = sized(LETTERS, scale)
    async with a_broker() as url:
        return await figures_of("bench.sides.letters", "publish", url=url, count=count)


async def _replayed(to: str, scale: float) -> Measured:
    count = sized(LETTERS, scale)
    async with _letters_of(to, count) as url:
        return await figures_of("bench.sides.letters", "replay", url=url, count=count)


@contextlib.asynccontextmanager
async def _letters_of(to: str, count: int) -> AsyncIterator[str]:
    """A broker with that many dead letters."""
    async with a_broker() as url:
        await figures_of("bench.sides.letters", "fill", url=url, count=count, to=to)
        yield url


QUESTION = Question(
    name="dlq_replay",
    asks="How fast are letters sent again?",
    sides=(Side("router", acknowledged), Side("router, no_ack", silent), Side("publish alone", bare)),
    figures=(
        Figure("rate", "letters/s", target=at_least(5_000)),
        Figure("rate", "letters/s", against="router, no_ack"),
        Figure("rate", "letters/s", against="publish alone"),
    ),
    lasts=(4.0, 8.0),
)
