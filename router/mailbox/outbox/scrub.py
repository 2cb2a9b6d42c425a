"""Whether each event still stands where the broker acknowledged it: read by sequence, newest first, a page now and then.

A server that was killed reads its blocks again and cuts off what is damaged; `lost` sees that. One that was stopped in order
trusts its own index: a block that rotted meanwhile is still counted, no hole is told, and its message is only found missing
by who reads it. So after every reconnect all that was acknowledged is read once, heads alone, in steps that leave the relay
nine tenths of its time.
"""

from __future__ import annotations

import asyncio
from typing import Final

from router.clock import Clock, steady
from router.delivery.api import JetStream
from router.delivery.reading import reading
from router.mailbox.outbox.lost import AT_ONCE, NEWEST, Written, is_at, standing_of, take_back
from router.mailbox.postgres import Database

PAGE: Final = 20  # receipts in one step: at most 20 000 sequences
HEADS: Final = 1000  # read at once
SHARE: Final = 10  # a step is followed by a rest of nine times as long
TOP: Final = (1 << 62, 0)  # above every receipt


class Scrub:
    """One relay's way through its receipts. Begun again, it starts from the newest."""

    def __init__(self, database: Database, jetstream: JetStream, stream: str, *, clock: Clock = steady) -> None:
        self._database = database
        self._jetstream = jetstream
        self._stream = stream
        self._clock = clock
        self._before: tuple[int, int] | None = None  # the last receipt that was looked at; None: nothing is left to do
        self._not_before = 0.0
        self.read = 0  # sequences that were looked for

    def begin(self) -> None:
        self._before = TOP

    async def step(self) -> int:
        """One page, if it is time for one; how many rows are to be published again. Raises as `take_back_lost` does."""
        since = self._clock()
        if self._before is None or since < self._not_before:
            return 0
        taken = await self._page(self._before)
        self._not_before = since + SHARE * (self._clock() - since)
        return taken

    async def _page(self, before: tuple[int, int]) -> int:
        async with self._database.transaction() as session:
            page = await session.fetch(NEWEST, (self._stream, *before, PAGE), make=Written)
        gone = await self._missing(page)
        taken = 0
        if gone:
            standing = await standing_of(self._jetstream, self._stream)  # what expired while it was read is not lost
            async with self._database.transaction() as session:
                for written in page:
                    taken += await take_back(session, standing, written, {one for one in gone if one >= standing.first})
        self._before = (max(page[-1].sequences), page[-1].id) if len(page) == PAGE else None
        return taken

    async def _missing(self, page: list[Written]) -> set[int]:
        """The sequences at which the event of the receipt is not. Whatever a reading did not find is asked for by itself."""
        standing = await standing_of(self._jetstream, self._stream)
        mine = [written for written in page if written.stream_created == standing.created]
        ids = {sequence: one for written in mine for one, sequence in zip(written.ids, written.sequences, strict=True)}
        wanted = {sequence: one for sequence, one in ids.items() if standing.first <= sequence}
        if not wanted:
            return set()
        self.read += len(wanted)
        found = await self._heads(min(wanted), max(wanted))
        odd = [sequence for sequence, one in wanted.items() if found.get(sequence) != str(one)]
        missing = set()
        for start in range(0, len(odd), AT_ONCE):
            some = odd[start : start + AT_ONCE]
            there = await asyncio.gather(*(is_at(self._jetstream, standing, wanted[sequence], sequence) for sequence in some))
            missing |= {sequence for sequence, is_there in zip(some, there, strict=True) if not is_there}
        return missing

    async def _heads(self, first: int, last: int) -> dict[int, str]:
        """The ids of what can be read from one sequence to another."""
        found: dict[int, str] = {}
        async with reading(self._jetstream, self._stream, first, heads_only=True) as reader:
            while heads := await reader.read(HEADS):
                found.update((head.sequence, head.headers.get("Nats-Msg-Id", "")) for head in heads)
                if heads[-1].sequence >= last:
                    break
        return found
