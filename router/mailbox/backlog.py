"""What is left to do: QRY-050 of the outbox, QRY-051 of the inbox. Both ask the partial index, however long the past is.

outbox   thousands may wait, written a moment ago and again when they failed: no vacuum has seen them, so the index alone cannot
         say which of its entries count. Each page of the table that it names is read once, whether one row or forty wait there
inbox    what is in hand waits, and little else; nobody but this look walks over the entries of what was processed since the
         last vacuum, and an index scan marks those on its way, so that the next one passes over them
"""

from __future__ import annotations

from typing import Final

from router.mailbox.entities import Backlog
from router.mailbox.postgres import Session

OUTBOX: Final = "SELECT count(*), min(occurred_at) FROM outbox_events WHERE published_at IS NULL"
INBOX: Final = """
    SELECT (SELECT count(*) FROM inbox_messages WHERE processed_at IS NULL),
           (SELECT min(received_at) FROM inbox_messages WHERE processed_at IS NULL)"""


async def get_outbox_backlog(session: Session) -> Backlog:
    """Events that are not published, and when the oldest occurred; the session is its context's (SD-17, QRY-050)."""
    async with session.by_page():
        return await session.one(OUTBOX, make=Backlog) or Backlog(0, None)


async def get_inbox_backlog(session: Session) -> Backlog:
    """Messages that were received and not processed, and when the oldest came (SD-18, QRY-051)."""
    return await session.one(INBOX, make=Backlog) or Backlog(0, None)
