"""What is left to do: QRY-050 of the outbox, QRY-051 of the inbox. Both ask the partial index alone, however long the past is.

The oldest is the index's first entry: asked for apart from the count, it costs a look and not a comparison for each row.
"""

from __future__ import annotations

from typing import Final

from router.mailbox.entities import Backlog
from router.mailbox.postgres import Session

OUTBOX: Final = """
    SELECT (SELECT count(*) FROM outbox_events WHERE published_at IS NULL),
           (SELECT min(occurred_at) FROM outbox_events WHERE published_at IS NULL)"""
INBOX: Final = """
    SELECT (SELECT count(*) FROM inbox_messages WHERE processed_at IS NULL),
           (SELECT min(received_at) FROM inbox_messages WHERE processed_at IS NULL)"""


async def get_outbox_backlog(session: Session) -> Backlog:
    """Events that are not published, and when the oldest occurred; the session is its context's (SD-17, QRY-050)."""
    return await session.one(OUTBOX, make=Backlog) or Backlog(0, None)


async def get_inbox_backlog(session: Session) -> Backlog:
    """Messages that were received and not processed, and when the oldest came (SD-18, QRY-051)."""
    return await session.one(INBOX, make=Backlog) or Backlog(0, None)
