"""Publish one event of the outbox by its id, now (CMD-050, docs/reference/requirements.md#sd-14).

its partition is taken, as a relay takes it  -> one that works there publishes the event itself
an earlier event of its aggregate waits      -> refused: the order of an aggregate is kept
else                                         -> published, marked and counted as a relay does it,
                                             also where it is parked
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Raw, Struct

from router.core.errors import BrokerUnavailable
from router.mailbox.entities import OutboxEvent
from router.mailbox.outbox.add import EventEncoder
from router.mailbox.outbox.nats_publisher import NatsJetStreamPublisher
from router.mailbox.outbox.page import Row, UnreadableRow
from router.mailbox.outbox.relay_batch import RelayBatch
from router.mailbox.outbox.repository import PostgresOutboxAdapter
from router.mailbox.postgres import Session
from router.mailbox.settings import RelayConfig

LOCK: Final = """
    SELECT pg_try_advisory_xact_lock(hashtext('router.outbox.' || current_schema()), hashtext(aggregate_type || '/' || aggregate_id) & 7)
    FROM outbox_events WHERE id = %s"""
SELECT_EVENT: Final = """
    SELECT e.id, e.aggregate_type, e.aggregate_id, left(e.event_type, 129),
           CASE WHEN octet_length(e.payload::text) <= %s THEN e.payload::text END, e.event_version,
           CASE WHEN e.occurred_at >= '0001-01-01' THEN e.occurred_at END, e.correlation_id, e.causation_id,
           e.published_at IS NOT NULL, e.occurred_at > now(),
           EXISTS (SELECT FROM outbox_events AS b
                   WHERE b.published_at IS NULL AND b.aggregate_type = e.aggregate_type AND b.aggregate_id = e.aggregate_id
                     AND b.position < e.position)
    FROM outbox_events AS e WHERE e.id = %s FOR UPDATE OF e"""
SELECT_ERROR: Final = "SELECT left(publish_error, 500) FROM outbox_events WHERE id = %s"

NOT_THERE = "there is no such event"
PUBLISHED_BEFORE = "it is published already"
RELAY_AT_WORK = "a relay publishes this part of the outbox now: ask again"
TOO_EARLY = "its time has not come"
BEHIND = "an earlier event of its aggregate waits: `router outbox parked` says for what"
UNREADABLE = "its time or its payload is not what can be sent"


class PublishedEvent(Struct, frozen=True):
    """`cause`: why it was not published by this call; None: it was, at `sequence` of the stream."""

    cause: str | None
    sequence: int | None = None


class _FoundEvent(Struct, frozen=True):
    """The row, and why it may not be published now."""

    row: Row
    cause: str | None


class _OneRow(PostgresOutboxAdapter):
    """An outbox with one row to publish."""

    def __init__(self, session: Session, row: Row, relay: RelayConfig) -> None:
        super().__init__(session, relay=relay)
        self._rows: Sequence[Row] = (row,)

    async def find_page(self) -> Sequence[Row]:
        rows, self._rows = self._rows, ()
        return rows


async def publish_one(
    session: Session,
    publisher: NatsJetStreamPublisher,
    encoder: EventEncoder,
    event_id: UUID,
    *,
    stream_created: str,
    relay: RelayConfig,
) -> PublishedEvent:
    """Publish it in this transaction. Raises BrokerUnavailable, DatabaseUnavailable,
    DatabaseRefused.
    """
    is_locked = await session.fetch_one(LOCK, (event_id,), make=bool)
    if not is_locked:
        return PublishedEvent(NOT_THERE if is_locked is None else RELAY_AT_WORK)
    # Only now: what a relay committed before the lock was free is seen by a later statement alone.
    selected = await session.fetch_one(SELECT_EVENT, (encoder.most, event_id), make=_read_event)
    if selected is None or selected.cause is not None:
        return PublishedEvent(NOT_THERE if selected is None else selected.cause)
    batch = RelayBatch(
        _OneRow(session, selected.row, relay),
        publisher,
        encoder,
        stream_created=stream_created,
        most=1,
    )
    report = await batch.run()
    if report.broker_error is not None:
        raise BrokerUnavailable(report.broker_error)
    if not report.published:
        return PublishedEvent(
            await session.fetch_one(SELECT_ERROR, (event_id,), make=str) or "refused"
        )
    return PublishedEvent(None, report.newest)


def _read_event(  # noqa: PLR0917 - a row comes column by column
    event_id: UUID,
    aggregate_type: str,
    aggregate_id: str,
    event_type: str,
    body: str | None,
    version: int,
    occurred_at: datetime | None,
    correlation_id: UUID | None,
    causation_id: UUID | None,
    is_published: bool,
    is_ahead: bool,
    is_behind: bool,
) -> _FoundEvent:
    cause = (
        PUBLISHED_BEFORE
        if is_published
        else BEHIND
        if is_behind
        else TOO_EARLY
        if is_ahead
        else None
    )
    if body is None or occurred_at is None:
        return _FoundEvent(UnreadableRow(event_id, aggregate_type, aggregate_id, UNREADABLE), cause)
    payload, ids = Raw(body.encode()), (correlation_id, causation_id)
    return _FoundEvent(
        OutboxEvent(
            event_id, aggregate_type, aggregate_id, event_type, payload, version, occurred_at, *ids
        ),
        cause,
    )
