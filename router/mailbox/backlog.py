"""What is left to do: QRY-050 of the outbox, QRY-051 of the inbox. Both ask the partial index, however long the past is.

outbox   thousands may wait, in rows that no vacuum has seen yet: they are counted page by page (`migrations/0004_backlog.sql`);
         the oldest is the first entry of the index
inbox    what is in hand waits, and little else; nobody but this look walks over the entries of what was processed since the
         last vacuum, and an index scan marks those on its way, so that the next one passes over them

Count and oldest are of one statement, so of one snapshot. A time that lies outside the years 1 to 9999, as the tables allow it, is
told as the nearest that lies within.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from router.mailbox.entities import Backlog
from router.mailbox.postgres import Session

OUTBOX: Final = """
    SELECT outbox_unpublished(),
           (SELECT CASE WHEN oldest < '0001-01-01' THEN '0001-01-01' ELSE oldest END
            FROM (SELECT min(occurred_at) AS oldest FROM outbox_events WHERE published_at IS NULL) AS waiting)"""
INBOX: Final = """
    SELECT (SELECT count(*) FROM inbox_messages WHERE processed_at IS NULL),
           (SELECT CASE WHEN oldest < '0001-01-01' THEN '0001-01-01' WHEN oldest >= '10000-01-01' THEN '9999-12-31' ELSE oldest END
            FROM (SELECT min(received_at) AS oldest FROM inbox_messages WHERE processed_at IS NULL) AS waiting)"""


async def get_outbox_backlog(session: Session) -> Backlog:
    """Events that are not published, and when the oldest occurred; the session is its context's (docs/requirements.md#qry-050)."""
    return await session.fetch_one(OUTBOX, make=Backlog) or Backlog(0, None)


async def get_inbox_backlog(session: Session) -> Backlog:
    """Messages that were received and not processed, and when the oldest came (docs/requirements.md#qry-051)."""
    return await session.fetch_one(INBOX, make=Backlog) or Backlog(0, None)


def age_s(backlog: Backlog) -> float:
    """Seconds since the oldest; 0 where there is none, or where it lies ahead."""
    return max(0.0, (datetime.now(UTC) - backlog.oldest_at).total_seconds()) if backlog.oldest_at is not None else 0.0
