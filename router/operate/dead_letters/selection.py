"""Reads dead letters of their stream: newest first for a list; oldest first and in batches for what
is done with those that an operator chose.

    DeadLetterFilter     which ones
    list_newest_first    operators want to see the latest failures
    read_by_…            oldest first, in batches: the next step can have many requests in flight
    DeadLetterChoice     those of a command or of the console: by sequences, by a filter, or all
    export               those, as JSON lines
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import Protocol

import orjson
from msgspec import Struct
from msgspec.structs import replace

from router.contracts.exact_json import dump_json
from router.core.ids import subject_matcher
from router.delivery.consume.stream_reader import open_reader
from router.delivery.wire.api import JetStream
from router.operate.dead_letters.parse import DeadLetter, as_full_fields, parse

LISTING_PAGE = 64
SELECTION_PAGE = 500

Progress = Callable[[int, int], None]  # dead letters looked at, of how many


class Filterable(Protocol):
    """What a filter looks at: a dead letter, or its head."""

    @property
    def subject(self) -> str: ...
    @property
    def original_subject(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def tenant_id(self) -> str | None: ...
    @property
    def code(self) -> str | None: ...
    @property
    def stored(self) -> datetime | None: ...


class DeadLetterFilter(Struct, frozen=True, kw_only=True):
    """Which dead letters; None: any. `subject` may have wildcards; it is the original's, or the
    dead letter's own.
    """

    subject: str | None = None
    reason: str | None = None
    tenant: str | None = None
    code: str | None = None  # of the error
    since: datetime | None = None

    def is_match(self, dead_letter: Filterable) -> bool:
        return (
            (self.subject is None or _is_on(self.subject, dead_letter))
            and self.reason in (None, dead_letter.reason)
            and self.tenant in (None, dead_letter.tenant_id)
            and self.code in (None, dead_letter.code)
            and not self.is_too_old(dead_letter)
        )

    def is_too_old(self, dead_letter: Filterable) -> bool:
        return (
            self.since is not None
            and (stored := dead_letter.stored) is not None
            and stored < self.since
        )


def _is_on(pattern: str, dead_letter: Filterable) -> bool:
    matches = subject_matcher((pattern,))
    return matches(dead_letter.original_subject) or matches(dead_letter.subject)


NO_FILTER = DeadLetterFilter()


# -- Newest first. JetStream reads forwards only, so this reads downwards by sequence, a batch at a
# time. Dead letters that were replayed or purged leave holes, which cost a question each; some ten
# thousand sequences a second are asked for.


async def list_newest_first(
    jetstream: JetStream,
    stream: str,
    wanted: DeadLetterFilter = NO_FILTER,
    limit: int | None = None,
) -> AsyncIterator[DeadLetter]:
    """Matching dead letters, at most `limit`; none when there is no such stream. Raises
    BrokerUnavailable.
    """
    given = 0
    async for dead_letter in _read_downwards(jetstream, stream):
        if wanted.is_too_old(dead_letter) or given == limit:
            return
        if wanted.is_match(dead_letter):
            given += 1
            yield dead_letter


async def show(jetstream: JetStream, stream: str, sequence: int) -> DeadLetter | None:
    """The dead letter at a sequence; None: it is gone, or never was."""
    stored = await jetstream.message(stream, sequence)
    return parse(stored) if stored is not None else None


async def _read_downwards(jetstream: JetStream, stream: str) -> AsyncIterator[DeadLetter]:
    info = await jetstream.stream(stream)
    if info is None:
        return
    first, upper = info["state"]["first_seq"], info["state"]["last_seq"]
    while upper >= max(first, 1):
        lower = max(first, upper - LISTING_PAGE + 1, 1)
        batch = await asyncio.gather(
            *(jetstream.message(stream, sequence) for sequence in range(upper, lower - 1, -1))
        )
        for stored in batch:
            if stored is not None:
                yield parse(stored)
        upper = lower - 1


# -- Oldest first. The end is fixed at the start: dead letters that arrive meanwhile, perhaps of
# messages that were just sent again, are left out.


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
            messages := await reader.read(min(at_once, reader.total - looked))
        ):
            looked += len(messages)
            yield DeadLetterBatch(
                [
                    dead_letter
                    for dead_letter in map(parse, messages)
                    if wanted.is_match(dead_letter)
                ],
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
        messages = await asyncio.gather(
            *(jetstream.message(stream, sequence) for sequence in asked)
        )
        there = [parse(stored) for stored in messages if stored is not None]
        absent = [
            sequence for sequence, stored in zip(asked, messages, strict=True) if stored is None
        ]
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
    dead_letters = [
        dead_letter for dead_letter in batch.dead_letters if dead_letter.tenant_id == tenant
    ]
    foreign = [
        dead_letter.sequence
        for dead_letter in batch.dead_letters
        if dead_letter.tenant_id != tenant
    ]
    return replace(batch, dead_letters=dead_letters, absent=[*batch.absent, *foreign])


# -- Export those that were chosen as JSON lines: every field that could be read, and the stored
# bytes.


async def export(
    chosen: AsyncIterator[DeadLetterBatch],
    write: Callable[[bytes], object],
    on_progress: Progress = lambda *_: None,
) -> int:
    """Write each selected dead letter as one line; returns how many there were."""
    count = 0
    async for handful in chosen:
        for dead_letter in handful.dead_letters:
            write(dump_json(as_full_fields(dead_letter), option=orjson.OPT_APPEND_NEWLINE))
        count += len(handful.dead_letters)
        on_progress(handful.looked, handful.total)
    return count
