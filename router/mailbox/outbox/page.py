"""Read the next page of unpublished rows, bounded in bytes; name a row that cannot be read, so that the relay can park it.

    index ──> at most `limit` rows, locked ──> cut where their stored sizes reach PAGE_BYTES ──> payloads as text, none above `most`
    refused ──> read again, row by row, until the row at fault is known

No value that a column may hold makes this fail: a time before the year 1 and a payload above `most` stay in the database and come as an
`UnreadableRow`, long names come cut. A payload that PostgreSQL itself cannot turn into text (one gigabyte) fails alone.
A compressed payload counts sixteenfold, so a page holds about PAGE_BYTES in memory, whatever a service writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Raw, Struct

from router.mailbox.entities import OutboxEvent
from router.mailbox.errors import DatabaseRefused
from router.mailbox.postgres import Session

PAGE_BYTES: Final = 16 * 1024 * 1024
MAX_PAYLOAD_BYTES_READ: Final = 64 * 1024 * 1024  # bytes of one payload: no NATS server accepts more
NO_BODIES: Final = -1
TOO_EARLY: Final = "occurred_at lies before the year 1: no header can tell it"

# Where a page begins: a time as PostgreSQL reads it, the id there, and the id that was read last.
Position = tuple[datetime | str, UUID, UUID | None]
PAGE_START: Final[Position] = ("-infinity", UUID(int=0), None)

SELECT_PAGE: Final = """
    WITH claimed AS MATERIALIZED (
      SELECT e.id, e.aggregate_type, e.aggregate_id, e.event_type, e.payload, e.event_version, e.occurred_at, e.correlation_id,
             e.causation_id, pg_column_size(e.payload) AS stored,
             pg_column_size(e.payload)::float8 * CASE WHEN pg_column_compression(e.payload) IS NULL THEN 1 ELSE 16 END AS weight
      FROM outbox_events AS e
      WHERE e.published_at IS NULL AND e.occurred_at <= now() AND e.occurred_at >= %s AND (e.occurred_at, e.id) >= (%s, %s)
        AND e.id IS DISTINCT FROM %s AND hashtext(e.aggregate_type || '/' || e.aggregate_id) & 7 = ANY(%s)
        AND NOT EXISTS (
          SELECT FROM outbox_relay_state AS s
          WHERE hashtext(s.aggregate_type || '/' || s.aggregate_id) = hashtext(e.aggregate_type || '/' || e.aggregate_id)
            AND s.aggregate_type = e.aggregate_type AND s.aggregate_id = e.aggregate_id
            AND (s.parked_at IS NOT NULL OR s.next_attempt_at > now()))
      ORDER BY e.occurred_at, e.id LIMIT %s FOR UPDATE OF e SKIP LOCKED
    ), weighed AS (
      SELECT *, sum(weight) OVER (ORDER BY occurred_at, id) AS so_far FROM claimed
    ), told AS (
      SELECT *, CASE WHEN stored / 8 <= %s THEN payload::text END AS body FROM weighed WHERE so_far <= %s OR so_far = weight OFFSET 0
    )
    SELECT id, CASE WHEN octet_length(aggregate_type) <= 512 THEN aggregate_type ELSE left(aggregate_type, 64) || md5(aggregate_type) END,
           CASE WHEN octet_length(aggregate_id) <= 512 THEN aggregate_id ELSE left(aggregate_id, 64) || md5(aggregate_id) END,
           left(event_type, 129), CASE WHEN octet_length(body) <= %s THEN body END,
           CASE WHEN octet_length(body) <= %s THEN NULL ELSE coalesce(octet_length(body), stored) END, event_version,
           CASE WHEN occurred_at >= '0001-01-01' THEN occurred_at END, CASE WHEN occurred_at < '0001-01-01' THEN occurred_at::text END,
           correlation_id, causation_id
    FROM told ORDER BY occurred_at, id"""


class UnreadableRow(Struct, frozen=True):
    """A row that can never be published as it is. `place`: when it occurred, as PostgreSQL reads it."""

    id: UUID
    aggregate_type: str
    aggregate_id: str
    place: datetime | str
    cause: str


Row = OutboxEvent | UnreadableRow


async def find_page(
    session: Session, after: Position, partitions: Sequence[int], limit: int, most: int = MAX_PAYLOAD_BYTES_READ
) -> Sequence[Row]:
    """Return at most `limit` rows behind this position. Raises DatabaseUnavailable, DatabaseRefused."""
    return await session.fetch(SELECT_PAGE, (after[0], *after, list(partitions), limit, most, PAGE_BYTES, most, most), make=_row)


async def find_next(session: Session, after: Position, partitions: Sequence[int], most: int = MAX_PAYLOAD_BYTES_READ) -> Sequence[Row]:
    """Return the next row alone, as an UnreadableRow if PostgreSQL cannot read it. Raises as `find_page` does where no row is the cause."""
    try:
        async with session.savepoint():
            return await find_page(session, after, partitions, 1, most)
    except DatabaseRefused as exc:
        return [_drop_payload(row, str(exc)) for row in await find_page(session, after, partitions, 1, NO_BODIES)]


def position_of(row: Row) -> Position:
    """The position of the page behind this row."""
    place = row.place if isinstance(row, UnreadableRow) else row.occurred_at
    return place if place is not None else PAGE_START[0], row.id, row.id


def _drop_payload(row: Row, cause: str) -> UnreadableRow:
    """Keep what is readable of a row whose payload the database cannot read."""
    place = row.place if isinstance(row, UnreadableRow) else row.occurred_at
    return UnreadableRow(row.id, row.aggregate_type, row.aggregate_id, place if place is not None else PAGE_START[0], cause)


def _row(  # noqa: PLR0917 - a row comes column by column
    event_id: UUID,
    aggregate_type: str,
    aggregate_id: str,
    event_type: str,
    body: str | None,
    size: int | None,
    version: int,
    occurred_at: datetime | None,
    early: str | None,
    correlation_id: UUID | None,
    causation_id: UUID | None,
) -> Row:
    if occurred_at is None:
        return UnreadableRow(event_id, aggregate_type, aggregate_id, early or PAGE_START[0], TOO_EARLY)
    if body is None:
        return UnreadableRow(event_id, aggregate_type, aggregate_id, occurred_at, f"payload of {size} bytes, more than can be sent")
    payload = Raw(body.encode())
    return OutboxEvent(event_id, aggregate_type, aggregate_id, event_type, payload, version, occurred_at, correlation_id, causation_id)
