"""Processed rows leave after a while, some pages of the table at a time: the specified table has no
index on processed_at.

    pages 0..99 │ 100..199 │ …        a row is the memory that its event was handled; it leaves when it is older than `keep`
                                      and the stream cannot hold its event any more, whichever is
                                      later

A stream that keeps events for ever keeps its rows here for ever: a durable that is made anew would
be given them all again.
"""

from __future__ import annotations

import asyncio
from typing import Final

from router.core.errors import RouterError
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import NANOS_PER_S
from router.mailbox.postgres import Database
from router.process.observability import events, logs

log = logs.logger(__name__)

EVERY_S = 600.0
PAGES = 100  # of the table in one transaction, about eighty rows each
PAUSE_S = 0.05  # between two transactions

SELECT_TABLE_PAGES: Final = (
    "SELECT pg_relation_size('inbox_messages') / current_setting('block_size')::bigint"
)
DELETE_OLD_ROWS: Final = """
    DELETE FROM inbox_messages
    WHERE ctid >= %s::tid AND ctid < %s::tid AND processed_at < now() - make_interval(secs => %s)"""


class InboxRetention:
    """Of one inbox; `run` is a supervised child."""

    def __init__(
        self,
        database: Database,
        jetstream: JetStream,
        stream: str,
        keep_s: float,
        *,
        pages: int = PAGES,
        pause_s: float = PAUSE_S,
    ) -> None:
        self._database = database
        self._jetstream = jetstream
        self._stream = stream
        self._keep_s, self._every_s = keep_s, min(EVERY_S, keep_s / 4)
        self._pages_at_once, self._pause_s = pages, pause_s

    async def run(self) -> None:
        """Delete old rows now and then, for ever; retry when the database or the broker is
        unavailable.
        """
        while True:
            try:
                if rows := await self.sweep():
                    log.info(events.INBOX_CLEANED, rows=rows)
            except RouterError as exc:
                log.warning(events.INBOX_NOT_CLEANED, cause=str(exc))
            await asyncio.sleep(self._every_s)

    async def sweep(self) -> int:
        """Delete all rows that are old enough now; return how many. Raises DatabaseUnavailable,
        BrokerUnavailable.
        """
        if (keep := await self._keep()) is None:
            return 0
        rows = 0
        for first in range(0, await self._pages(), self._pages_at_once):
            async with self._database.transaction() as session:
                rows += await session.execute(
                    DELETE_OLD_ROWS, (f"({first},0)", f"({first + self._pages_at_once},0)", keep)
                )
            await asyncio.sleep(self._pause_s)
        return rows

    async def _keep(self) -> float | None:
        """Seconds; None: keep for ever, also while the stream's own limit is unknown."""
        info = await self._jetstream.stream(self._stream)
        max_age_ns = info["config"].get("max_age", 0) if info is not None else 0
        return max(self._keep_s, max_age_ns / NANOS_PER_S) if max_age_ns else None

    async def _pages(self) -> int:
        async with self._database.transaction() as session:
            return await session.fetch_one(SELECT_TABLE_PAGES, make=int) or 0
