"""Delete published rows after a while, few at a time, so that no vacuum, lock or replica has to
process a million at once.

Their ack rows say which rows they are, oldest first: the specified table has no index on
published_at, and needs none.
"""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec import Struct

from router.mailbox.postgres import Database, Session
from router.process.observability import events, logs

log = logs.logger(__name__)

EVERY_S = 60.0
ACK_ROWS = 2  # deleted in one transaction, each with the rows of one marking (at most 1000)
PAUSE_S = 0.05  # between two transactions

DELETE_OLD_ROWS: Final = """
    WITH old AS (
      DELETE FROM outbox_publish_acks WHERE id IN (
        SELECT id FROM outbox_publish_acks WHERE published_at < now() - make_interval(secs => %s)
        ORDER BY published_at LIMIT %s FOR UPDATE SKIP LOCKED)
      RETURNING outbox_ids
    ), gone AS (
      DELETE FROM outbox_events USING old WHERE id = ANY(old.outbox_ids) AND published_at IS NOT NULL RETURNING 1
    )
    SELECT (SELECT count(*) FROM old), (SELECT count(*) FROM gone)"""


class CleanupResult(Struct, frozen=True):
    ack_rows: int
    rows: int


async def clean(session: Session, keep_s: float, ack_rows: int) -> CleanupResult:
    """Delete the rows of one transaction."""
    return await session.fetch_one(
        DELETE_OLD_ROWS, (keep_s, ack_rows), make=CleanupResult
    ) or CleanupResult(0, 0)


class OutboxRetention:
    """The child that deletes old rows. Several may run: each takes ack rows that no other holds."""

    def __init__(self, database: Database, keep_s: float, *, ack_rows: int = ACK_ROWS) -> None:
        self._database = database
        self._keep_s, self._ack_rows = keep_s, ack_rows
        self.cleaned = 0

    async def run(self) -> None:
        """Run until cancelled. Raises DatabaseUnavailable, DatabaseRefused: it is a helper, and its
        supervisor starts it again.
        """
        while True:
            rows = await self.sweep()
            if rows:
                log.info(events.OUTBOX_CLEANED, rows=rows)
            await asyncio.sleep(EVERY_S)

    async def sweep(self) -> int:
        """Delete all rows that are old enough now; return how many."""
        rows = 0
        while True:
            async with self._database.transaction() as session:
                cleaned = await clean(session, self._keep_s, self._ack_rows)
            rows += cleaned.rows
            self.cleaned += cleaned.rows
            if cleaned.ack_rows < self._ack_rows:
                return rows
            await asyncio.sleep(PAUSE_S)
