"""Rows that wait or are parked: looked at, and put back among those that are published.

A parked row holds back its aggregate, for order's sake. Mend what it failed of and requeue it; or, if it must never go out,
delete it from outbox_events, and what stood behind it moves on.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from router.mailbox.postgres import Session

FAILING: Final = """
    SELECT e.id, left(e.aggregate_type, 256), left(e.aggregate_id, 256), left(e.event_type, 256),
           greatest(e.occurred_at, '0001-01-01'), s.failures, left(e.publish_error, 500), s.next_attempt_at, s.parked_at,
           (SELECT count(*) FROM outbox_events AS b
            WHERE b.published_at IS NULL AND b.aggregate_type = e.aggregate_type AND b.aggregate_id = e.aggregate_id AND b.id <> e.id)
    FROM outbox_relay_state AS s JOIN outbox_events AS e ON e.id = s.outbox_id
    WHERE e.published_at IS NULL AND (s.parked_at IS NOT NULL OR %s)
    ORDER BY e.occurred_at, e.id LIMIT %s"""
PARKED: Final = "SELECT count(*) FROM outbox_relay_state WHERE parked_at IS NOT NULL"
REQUEUE: Final = "DELETE FROM outbox_relay_state WHERE outbox_id = ANY(%s::uuid[])"
REQUEUE_ALL: Final = "DELETE FROM outbox_relay_state WHERE parked_at IS NOT NULL"


class FailedRow(Struct, frozen=True):
    """A row that failed. `behind`: events of its aggregate that wait for it. `parked_at` None: it is tried again by itself.

    Names are cut at 256 characters, the error at 500; a time before the year 1 is told as its first moment.
    """

    id: UUID
    aggregate_type: str
    aggregate_id: str
    event_type: str
    occurred_at: datetime
    failures: int
    publish_error: str | None
    next_attempt_at: datetime
    parked_at: datetime | None
    behind: int


async def list_failed_rows(session: Session, *, limit: int = 100, is_also_waiting: bool = False) -> Sequence[FailedRow]:
    """Parked rows, oldest first; with `is_also_waiting` those in backoff, too."""
    return await session.fetch(FAILING, (is_also_waiting, limit), make=FailedRow)


async def count_parked(session: Session) -> int:
    return await session.fetch_one(PARKED, make=int) or 0


async def requeue(session: Session, ids: Sequence[UUID] | None = None) -> int:
    """Forget that these rows failed (None: all that are parked): they are published next. How many there were."""
    if ids is None:
        return await session.execute(REQUEUE_ALL)
    return await session.execute(REQUEUE, (list(ids),))
