"""Count the work that is left: QRY-050 of the outbox, QRY-051 of the inbox. Both use the partial
index, so past rows do not slow them down.

outbox   thousands of rows may wait, in pages that no vacuum has seen yet:
         `migrations/0004_backlog.sql` counts them page by page;
         the oldest is the first entry of the index
inbox    only the messages in flight wait. This query alone walks over the index entries of rows
         that were processed since the last
         vacuum; its index scan marks them dead, so the next scan skips them

One statement reads count and oldest, so both come from one snapshot. The tables allow times outside
the years 1 to 9999; such a time is reported as the nearest one inside.
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
    """Count unpublished events and find when the oldest occurred, in the session's context
    (docs/reference/requirements.md#qry-050).
    """
    return await session.fetch_one(OUTBOX, make=Backlog) or Backlog(0, None)


async def get_inbox_backlog(session: Session) -> Backlog:
    """Count messages that were received and not processed, and find when the oldest was received
    (docs/reference/requirements.md#qry-051).
    """
    return await session.fetch_one(INBOX, make=Backlog) or Backlog(0, None)


def age_s(backlog: Backlog) -> float:
    """Seconds since the oldest; 0 where there is none, or where its time is in the future."""
    return (
        max(0.0, (datetime.now(UTC) - backlog.oldest_at).total_seconds())
        if backlog.oldest_at is not None
        else 0.0
    )
