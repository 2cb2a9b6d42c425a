"""What came of messages, written into their rows: gathered from many, one statement and one commit for all of them.

    write(mark) ... write(mark) --> one UPDATE --> each writer goes on

A database that is away is waited for, however long: an effect that stands and a letter that is stored must not be
forgotten, and until they are written down nothing is acknowledged.
"""

from __future__ import annotations

import asyncio

from msgspec import Struct

from router.deferred import Deferred
from router.mailbox.errors import DatabaseRefused, DatabaseUnavailable
from router.mailbox.inbox.adapter import InboxMark, PostgresInboxAdapter
from router.mailbox.inbox.batch_queue import BatchQueue
from router.mailbox.postgres import Database

AT_ONCE = 1000
LINGER_S = 0.005  # answers come one by one: a commit for each would cost more than its call


class _PendingStatus(Struct, eq=False):
    mark: InboxMark
    written: Deferred[None]


class InboxStatusWriter:
    """For one database; `run` is its work."""

    def __init__(self, database: Database, retry_s: float = 1.0) -> None:
        self._database = database
        self._retry_s = retry_s
        self._queue: BatchQueue[_PendingStatus] = BatchQueue()

    def write(self, mark: InboxMark) -> Deferred[None]:
        """It comes when the mark is committed."""
        writing = _PendingStatus(mark, Deferred())
        self._queue.add(writing)
        return writing.written

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            writings = await self._queue.take(AT_ONCE, LINGER_S)
            await self._insist([writing.mark for writing in writings])
            for writing in writings:
                writing.written.resolve(None)

    async def _insist(self, marks: list[InboxMark]) -> None:
        while True:
            try:
                async with self._database.transaction() as session:
                    await PostgresInboxAdapter(session).settle(marks)
            except (DatabaseUnavailable, DatabaseRefused):
                await asyncio.sleep(self._retry_s)
            else:
                return
