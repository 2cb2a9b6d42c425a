"""List dead letters newest first: operators want to see the latest failures.

JetStream reads forwards only, so this reads downwards by sequence, a batch at a time. Dead letters
that were replayed or purged leave holes, which cost a question each; some ten thousand sequences a
second are asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from router.core.ids import subject_matcher
from router.delivery.wire.api import JetStream
from router.operate.dead_letters.parse import DeadLetter, parse

LISTING_PAGE = 64


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

    def is_match(self, letter: Filterable) -> bool:
        return (
            (self.subject is None or _is_on(self.subject, letter))
            and self.reason in (None, letter.reason)
            and self.tenant in (None, letter.tenant_id)
            and self.code in (None, letter.code)
            and not self.is_too_old(letter)
        )

    def is_too_old(self, letter: Filterable) -> bool:
        return (
            self.since is not None and (stored := letter.stored) is not None and stored < self.since
        )


NO_FILTER = DeadLetterFilter()


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
    async for letter in _read_downwards(jetstream, stream):
        if wanted.is_too_old(letter) or given == limit:
            return
        if wanted.is_match(letter):
            given += 1
            yield letter


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
        found = await asyncio.gather(
            *(jetstream.message(stream, sequence) for sequence in range(upper, lower - 1, -1))
        )
        for stored in found:
            if stored is not None:
                yield parse(stored)
        upper = lower - 1


def _is_on(pattern: str, letter: Filterable) -> bool:
    matches = subject_matcher((pattern,))
    return matches(letter.original_subject) or matches(letter.subject)
