"""Write the results of messages into their rows: one statement and one commit for many of them.

    write(mark) ... write(mark) --> one UPDATE --> each writer goes on

The writer waits for an unavailable database, however long: it must not forget an effect that is
committed or a dead letter that is stored, and no message is acknowledged before its row says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from router.core.coalescer import GroupCommit
from router.mailbox.errors import DatabaseRefused, DatabaseUnavailable
from router.mailbox.inbox.adapter import InboxMark, PostgresInboxAdapter
from router.mailbox.postgres import Database

MAX_ROWS_PER_UPDATE = 1000
LINGER_S = 0.005  # answers arrive one by one: a commit for each would cost more than its call


class InboxStatusWriter:
    """For one database; `run` does its work, until cancelled."""

    def __init__(self, database: Database, retry_s: float = 1.0) -> None:
        self._database = database
        self._retry_s = retry_s
        commits: GroupCommit[InboxMark, None] = GroupCommit(
            self._commit, MAX_ROWS_PER_UPDATE, LINGER_S
        )
        self.write = commits.add  # its result resolves when the mark is committed
        self.run = commits.run

    async def _commit(self, marks: Sequence[InboxMark]) -> Sequence[None]:
        while True:
            try:
                async with self._database.transaction() as session:
                    await PostgresInboxAdapter(session).settle(marks)
            except (DatabaseUnavailable, DatabaseRefused):
                await asyncio.sleep(self._retry_s)
            else:
                return [None] * len(marks)
