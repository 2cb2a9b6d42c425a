"""List rows that failed or are parked, and put parked rows back among those to publish.

A parked row holds back its aggregate, to keep the order. Mend the cause and requeue it; or, if it
must never be published, delete it from outbox_events while no relay works: the rows behind it are
then published.

To requeue waits for the batch that a relay has in hand, by the lock of the row's partition. That
batch may have passed the row already, and would publish those behind it first.
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
    ORDER BY e.position LIMIT %s"""
PARKED: Final = "SELECT count(*) FROM outbox_relay_state WHERE parked_at IS NOT NULL"
LOCK_PARTITIONS: Final = """
    SELECT pg_advisory_xact_lock(hashtext('router.outbox.' || current_schema()), partition) FROM (
      SELECT DISTINCT hashtext(aggregate_type || '/' || aggregate_id) & 7 AS partition FROM outbox_relay_state
      WHERE CASE WHEN %s THEN parked_at IS NOT NULL ELSE outbox_id = ANY(%s::uuid[]) END ORDER BY 1) AS wanted"""
REQUEUE: Final = "DELETE FROM outbox_relay_state WHERE outbox_id = ANY(%s::uuid[])"
REQUEUE_ALL: Final = "DELETE FROM outbox_relay_state WHERE parked_at IS NOT NULL"


class FailedRow(Struct, frozen=True):
    """A row that failed. `behind`: events of its aggregate that wait for it. `parked_at` None: the
    relay tries it again by itself.

    Names are cut at 256 characters, the error at 500; a time before the year 1 is shown as the
    first moment of that year.
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


async def list_failed_rows(
    session: Session, *, limit: int = 100, is_also_waiting: bool = False
) -> Sequence[FailedRow]:
    """Return parked rows in the order in which they were added; with `is_also_waiting` also those
    in backoff.
    """
    return await session.fetch(FAILING, (is_also_waiting, limit), make=FailedRow)


async def count_parked(session: Session) -> int:
    return await session.fetch_one(PARKED, make=int) or 0


async def requeue(session: Session, ids: Sequence[UUID] | None = None) -> int:
    """Delete the failures of these rows (None: of all parked ones), so that they are published
    next. Returns how many there were.
    """
    await session.execute(LOCK_PARTITIONS, (ids is None, list(ids or ())))
    if ids is None:
        return await session.execute(REQUEUE_ALL)
    return await session.execute(REQUEUE, (list(ids),))
