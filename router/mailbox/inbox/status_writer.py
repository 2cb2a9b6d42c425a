"""Write the results of messages into their rows: one statement and one commit for many of them.

    write(mark) ... write(mark) --> one UPDATE --> each writer goes on

The writer waits for an unavailable database, however long: it must not forget an effect that is committed or a dead letter that is
stored, and no message is acknowledged before its row says so.
"""

from __future__ import annotations

import asyncio

from msgspec import Struct

from router.core.deferred import Deferred
from router.mailbox.errors import DatabaseRefused, DatabaseUnavailable
from router.mailbox.inbox.adapter import InboxMark, PostgresInboxAdapter
from router.mailbox.inbox.batch_queue import BatchQueue
from router.mailbox.postgres import Database

MAX_ROWS_PER_UPDATE = 1000
LINGER_S = 0.005  # answers arrive one by one: a commit for each would cost more than its call


class _PendingStatus(Struct, eq=False):
    mark: InboxMark
    written: Deferred[None]


class InboxStatusWriter:
    """For one database; `run` does its work."""

    def __init__(self, database: Database, retry_s: float = 1.0) -> None:
        self._database = database
        self._retry_s = retry_s
        self._queue: BatchQueue[_PendingStatus] = BatchQueue()

    def write(self, mark: InboxMark) -> Deferred[None]:
        """Queue the mark; the result resolves when it is committed."""
        writing = _PendingStatus(mark, Deferred())
        self._queue.add(writing)
        return writing.written

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            writings = await self._queue.take(MAX_ROWS_PER_UPDATE, LINGER_S)
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
