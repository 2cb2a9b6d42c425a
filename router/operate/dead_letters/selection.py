"""Read the selected dead letters oldest first and in batches, so that the next step can have many
requests in flight.

The end is fixed at the start: dead letters that arrive meanwhile, perhaps of messages that were
just sent again, are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from msgspec import Struct

from router.delivery.consume.stream_reader import open_reader
from router.delivery.wire.api import JetStream
from router.operate.dead_letters.listing import NO_FILTER, DeadLetterFilter
from router.operate.dead_letters.parse import DeadLetter, parse

SELECTION_PAGE = 500


class DeadLetterBatch(Struct, frozen=True):
    """Some dead letters; `looked` of `total` were read so far, counted from the first batch."""

    letters: Sequence[DeadLetter]
    looked: int
    total: int
    absent: Sequence[int] = ()  # sequences that were asked for, and are not there


async def read_by_filter(
    jetstream: JetStream,
    stream: str,
    wanted: DeadLetterFilter = NO_FILTER,
    at_once: int = SELECTION_PAGE,
) -> AsyncIterator[DeadLetterBatch]:
    """Every matching dead letter; none when there is no such stream. Raises BrokerUnavailable."""
    if await jetstream.stream(stream) is None:
        return
    async with open_reader(jetstream, stream) as reader:
        looked = 0
        while looked < reader.total and (
            found := await reader.read(min(at_once, reader.total - looked))
        ):
            looked += len(found)
            yield DeadLetterBatch(
                [letter for letter in map(parse, found) if wanted.is_match(letter)],
                looked,
                reader.total,
            )


async def read_by_sequence(
    jetstream: JetStream, stream: str, sequences: Sequence[int], at_once: int = SELECTION_PAGE
) -> AsyncIterator[DeadLetterBatch]:
    """The dead letters at these sequences, each once, in their order."""
    wanted = sorted(set(sequences))
    for begin in range(0, len(wanted), at_once):
        asked = wanted[begin : begin + at_once]
        found = await asyncio.gather(*(jetstream.message(stream, sequence) for sequence in asked))
        there = [parse(stored) for stored in found if stored is not None]
        absent = [sequence for sequence, stored in zip(asked, found, strict=True) if stored is None]
        yield DeadLetterBatch(there, begin + len(asked), len(wanted), absent)
