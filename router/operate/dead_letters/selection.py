"""Which dead letters an operator chose, read oldest first and in batches, so that the next step can
have many requests in flight.

The end is fixed at the start: dead letters that arrive meanwhile, perhaps of messages that were
just sent again, are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from router.delivery.consume.stream_reader import open_reader
from router.delivery.wire.api import JetStream
from router.operate.dead_letters.listing import NO_FILTER, DeadLetterFilter
from router.operate.dead_letters.parse import DeadLetter, parse

SELECTION_PAGE = 500


class DeadLetterBatch(Struct, frozen=True):
    """Some dead letters; `looked` of `total` were read so far, counted from the first batch."""

    dead_letters: Sequence[DeadLetter]
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


# -- Which dead letters an operator chose, by a command or in the console: by their sequences, or
# by a filter, or all.


SHOWN_SEQUENCES = 20


class DeadLetterChoice(Struct, frozen=True):
    """`sequences`, if there are any, else all that match. `only_tenant`: of these, one tenant's
    alone; others count as absent.
    """

    sequences: Sequence[int] = ()
    matching: DeadLetterFilter = NO_FILTER
    only_tenant: str | None = None

    @property
    def tenant(self) -> str | None:
        return self.only_tenant or self.matching.tenant

    def describe(self, stream: str) -> str:
        """For people and for the audit: `ROUTER_DLQ 17 18`, `ROUTER_DLQ reason=unreadable`."""
        if self.sequences:
            more = " …" if len(self.sequences) > SHOWN_SEQUENCES else ""
            return f"{stream} {' '.join(map(str, self.sequences[:SHOWN_SEQUENCES]))}{more}"
        given = {
            name: value
            for name in self.matching.__struct_fields__
            if (value := getattr(self.matching, name)) is not None
        }
        return f"{stream} {' '.join(f'{name}={value}' for name, value in given.items()) or 'all'}"

    async def read(
        self, jetstream: JetStream, stream: str, at_once: int = SELECTION_PAGE
    ) -> AsyncIterator[DeadLetterBatch]:
        """Read them in batches, oldest first."""
        if self.sequences:
            batches = read_by_sequence(jetstream, stream, self.sequences, at_once)
        else:
            batches = read_by_filter(jetstream, stream, self.matching, at_once)
        async for batch in batches:
            yield batch if self.only_tenant is None else _limit(batch, self.only_tenant)


def _limit(batch: DeadLetterBatch, tenant: str) -> DeadLetterBatch:
    letters = [one for one in batch.dead_letters if one.tenant_id == tenant]
    foreign = [one.sequence for one in batch.dead_letters if one.tenant_id != tenant]
    return replace(batch, dead_letters=letters, absent=[*batch.absent, *foreign])
