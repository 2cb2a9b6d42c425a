"""Choose the rows of a batch by position and read them page by page, bounded in bytes; name a row
that cannot be read, so that the relay can park it.

    choose ──> positions of at most `limit` rows, as one statement sees them
    read   ──> the next of these, locked ──> cut where their stored sizes reach PAGE_BYTES ──> payloads as text, none above `most`
    refused ──> read again, row by row, until the row at fault is known

No value that a column may hold makes this fail: a time before the year 1 and a payload above `most`
stay in the database and come as an `UnreadableRow`, long names come cut. A payload that PostgreSQL
itself cannot turn into text (one gigabyte) fails alone. A compressed payload counts sixteenfold, so
a page holds about PAGE_BYTES in memory, whatever a service writes.

Order: an aggregate's lock gives its events rising positions, and these are kept
(docs/reference/requirements.md#x27).

    chosen at once   a transaction that commits while pages are read may have events behind the page
                     that is read and before it: none
                     is taken. They wait for another batch, and with them the later events of their
                     aggregate, which were added after that commit
    ahead            aggregates with an event whose time has not come, and its position: the events
                     behind it wait for it
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
# bytes of one payload: no NATS server accepts more
MAX_PAYLOAD_BYTES_READ: Final = 64 * 1024 * 1024
NO_BODIES: Final = -1
TOO_EARLY: Final = "occurred_at lies before the year 1: no header can tell it"

# `firsts` finds an aggregate by a binary search: of a service whose clock is ahead, tens of
# thousands may wait.
SELECT_POSITIONS: Final = """
    WITH ahead AS MATERIALIZED (
      SELECT jsonb_object_agg(aggregate, first) AS firsts FROM (
        SELECT hashtext(aggregate_type || '/' || aggregate_id)::text AS aggregate, min(position) AS first
        FROM outbox_events WHERE published_at IS NULL AND occurred_at > now() GROUP BY 1) AS waiting
    )
    SELECT e.position FROM outbox_events AS e
    WHERE e.published_at IS NULL AND hashtext(e.aggregate_type || '/' || e.aggregate_id) & 7 = ANY(%s)
      AND NOT EXISTS (
        SELECT FROM outbox_relay_state AS s
        WHERE hashtext(s.aggregate_type || '/' || s.aggregate_id) = hashtext(e.aggregate_type || '/' || e.aggregate_id)
          AND s.aggregate_type = e.aggregate_type AND s.aggregate_id = e.aggregate_id
          AND (s.parked_at IS NOT NULL OR s.next_attempt_at > now()))
      AND e.position < coalesce(
        ((SELECT firsts FROM ahead) ->> hashtext(e.aggregate_type || '/' || e.aggregate_id)::text)::bigint, e.position + 1)
    ORDER BY e.position LIMIT %s"""
# The index finds what lies from the first to the last, and `+ 0` keeps the list out of it:
# PostgreSQL 16 would count on a descent for each position, and read all that waits instead.
SELECT_PAGE: Final = """
    WITH claimed AS MATERIALIZED (
      SELECT e.position, e.id, e.aggregate_type, e.aggregate_id, e.event_type, e.payload, e.event_version, e.occurred_at, e.correlation_id,
             e.causation_id, pg_column_size(e.payload) AS stored,
             pg_column_size(e.payload)::float8 * CASE WHEN pg_column_compression(e.payload) IS NULL THEN 1 ELSE 16 END AS weight
      FROM outbox_events AS e
      WHERE e.published_at IS NULL AND e.position >= %s AND e.position <= %s AND e.position + 0 = ANY(%s::bigint[])
      ORDER BY e.position FOR UPDATE OF e SKIP LOCKED
    ), weighed AS (
      SELECT *, sum(weight) OVER (ORDER BY position) AS so_far FROM claimed
    ), told AS (
      SELECT *, CASE WHEN stored / 8 <= %s THEN payload::text END AS body FROM weighed WHERE so_far <= %s OR so_far = weight OFFSET 0
    )
    SELECT position, id,
           CASE WHEN octet_length(aggregate_type) <= 512 THEN aggregate_type ELSE left(aggregate_type, 64) || md5(aggregate_type) END,
           CASE WHEN octet_length(aggregate_id) <= 512 THEN aggregate_id ELSE left(aggregate_id, 64) || md5(aggregate_id) END,
           left(event_type, 129), CASE WHEN octet_length(body) <= %s THEN body END,
           CASE WHEN octet_length(body) <= %s THEN NULL ELSE coalesce(octet_length(body), stored) END, event_version,
           CASE WHEN occurred_at >= '0001-01-01' THEN occurred_at END, correlation_id, causation_id
    FROM told ORDER BY position"""


class UnreadableRow(Struct, frozen=True):
    """A row that can never be published as it is."""

    id: UUID
    aggregate_type: str
    aggregate_id: str
    cause: str


Row = OutboxEvent | UnreadableRow
PlacedRow = tuple[int, Row]  # a row with its position


async def find_positions(session: Session, partitions: Sequence[int], limit: int) -> list[int]:
    """Return the first rows that may be published, `limit` at most. Raises DatabaseUnavailable,
    DatabaseRefused.
    """
    return await session.fetch(SELECT_POSITIONS, (list(partitions), limit), make=int)


async def find_page(
    session: Session, positions: Sequence[int], most: int = MAX_PAYLOAD_BYTES_READ
) -> Sequence[PlacedRow]:
    """Return the first of the rows at these positions that are still to be published. Raises
    DatabaseUnavailable, DatabaseRefused.
    """
    return await session.fetch(
        SELECT_PAGE,
        (positions[0], positions[-1], write_array(positions), most, PAGE_BYTES, most, most),
        make=_row,
    )


async def find_alone(
    session: Session, position: int, most: int = MAX_PAYLOAD_BYTES_READ
) -> Sequence[PlacedRow]:
    """Return the row there, as an UnreadableRow if PostgreSQL cannot read it. Raises as `find_page`
    does where no row is the cause.
    """
    try:
        async with session.savepoint():
            return await find_page(session, [position], most)
    except DatabaseRefused as exc:
        pairs = await find_page(session, [position], NO_BODIES)
        return [(position, _drop_payload(row, str(exc))) for position, row in pairs]


def write_array(values: Sequence[str] | Sequence[int]) -> str:
    """Write an array as PostgreSQL reads it. The driver would quote each value by itself: a third
    of the relay's processor time.
    """
    return f"{{{','.join(map(str, values))}}}"


def _drop_payload(row: Row, cause: str) -> UnreadableRow:
    """Keep what is readable of a row whose payload the database cannot read."""
    return UnreadableRow(row.id, row.aggregate_type, row.aggregate_id, cause)


def _row(  # noqa: PLR0917 - a row comes column by column
    position: int,
    event_id: UUID,
    aggregate_type: str,
    aggregate_id: str,
    event_type: str,
    body: str | None,
    size: int | None,
    version: int,
    occurred_at: datetime | None,
    correlation_id: UUID | None,
    causation_id: UUID | None,
) -> PlacedRow:
    if occurred_at is None:
        return position, UnreadableRow(event_id, aggregate_type, aggregate_id, TOO_EARLY)
    if body is None:
        return position, UnreadableRow(
            event_id,
            aggregate_type,
            aggregate_id,
            f"payload of {size} bytes, more than can be sent",
        )
    payload, ids = Raw(body.encode()), (correlation_id, causation_id)
    return position, OutboxEvent(
        event_id, aggregate_type, aggregate_id, event_type, payload, version, occurred_at, *ids
    )
