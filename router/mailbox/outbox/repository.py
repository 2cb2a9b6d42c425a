"""outbox_events: as one transaction sees it (PORT-047-001) and the relay needs it; rows that
failed, put back; and published rows, deleted after a while.

A relay needs no lease, so no clock: an aggregate belongs to one of eight partitions, a transaction
locks partitions by advisory locks and rows by SKIP LOCKED, and the end of the transaction releases
them.

    partitions  claim_partitions(at_most)   this transaction's alone; a relay that finds none stands
                                            by
    rows        find_unpublished()          of these, the next page by position; none of an
                                            aggregate that waited or was parked
    marks       mark_all_published(…)       one statement for all
    failures    increment_attempts(…)       of one row: counted, retried with backoff, parked at the
                                            limit

`published_at IS NULL` is the only truth about what is left; a high-water mark would pass over what
commits late. One transaction reads the rows that one statement chose when it began, page by page:
`page` says why.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from router.core.clock import delay_after
from router.core.outcome import PublishAck
from router.mailbox.entities import OutboxEvent
from router.mailbox.outbox.page import (
    MAX_PAYLOAD_BYTES_READ,
    PlacedRow,
    Row,
    find_alone,
    find_page,
    find_positions,
    write_array,
)
from router.mailbox.postgres import Database, Session
from router.mailbox.settings import RelayConfig
from router.process.observability import events, logs

PARTITIONS: Final = 8
ROUND: Final = 8000  # rows that one transaction chooses, at most
MOST_OF_AN_ERROR: Final = 500  # characters

CLAIM_PARTITIONS: Final = """
    SELECT partition FROM unnest(%s::int[]) AS partition
    WHERE pg_try_advisory_xact_lock(hashtext('router.outbox.' || current_schema()), partition) LIMIT %s"""

MARK: Final = """
    WITH told AS (
      SELECT %s::uuid[] AS ids
    ), publish_ack AS (
      INSERT INTO outbox_publish_acks (stream, stream_created, last_sequence, outbox_ids, sequences)
      SELECT %s, %s, %s, ids, %s::bigint[] FROM told
    ), mended AS (
      DELETE FROM outbox_relay_state USING told WHERE outbox_id = ANY(told.ids)
    )
    UPDATE outbox_events
    SET published_at = clock_timestamp(), publish_attempts = LEAST(publish_attempts, 2147483646) + 1, publish_error = NULL
    FROM told WHERE id = ANY(told.ids)"""

MARK_ONE: Final = """
    UPDATE outbox_events
    SET published_at = clock_timestamp(), publish_attempts = LEAST(publish_attempts, 2147483646) + 1, publish_error = NULL
    WHERE id = %s AND published_at IS NULL"""

SELECT_FAILURES: Final = "SELECT failures FROM outbox_relay_state WHERE outbox_id = %s"

UPDATE_FAILED: Final = """
    WITH failed AS (
      UPDATE outbox_events SET publish_attempts = LEAST(publish_attempts, 2147483646) + 1, publish_error = %s
      WHERE id = %s AND published_at IS NULL RETURNING id, aggregate_type, aggregate_id
    )
    INSERT INTO outbox_relay_state AS s (outbox_id, aggregate_type, aggregate_id, failures, next_attempt_at, parked_at)
    SELECT id, aggregate_type, aggregate_id, 1, now() + make_interval(secs => %s), CASE WHEN %s THEN now() END FROM failed
    ON CONFLICT (outbox_id) DO UPDATE
    SET failures = LEAST(s.failures, 2147483646) + 1, next_attempt_at = EXCLUDED.next_attempt_at, parked_at = EXCLUDED.parked_at"""


class PostgresOutboxAdapter:
    """One transaction's outbox, of at most `round` rows. `limit`: rows of a page, 1 = with care;
    `most`: bytes of a payload to be sent.

    Rule: docs/reference/requirements.md#sd-21.
    """

    def __init__(
        self,
        session: Session,
        *,
        limit: int = 500,
        round: int = ROUND,  # noqa: A002 - as in RelayConfig
        relay: RelayConfig = RelayConfig(),  # noqa: B008 - frozen
        most: int = MAX_PAYLOAD_BYTES_READ,
    ) -> None:
        self._session = session
        self._limit = limit
        self._round = round
        self._relay = relay
        self._partitions: list[int] = list(range(PARTITIONS))
        self._most = most
        # positions that are not read yet; chosen once, before the first page
        self._left: list[int] | None = None

    async def claim_partitions(self, at_most: int = PARTITIONS, first: int = 0) -> int:
        """Take partitions for this transaction, from `first` on; return how many were free."""
        wanted = [(first + place) % PARTITIONS for place in range(PARTITIONS)]
        self._partitions = await self._session.fetch(CLAIM_PARTITIONS, (wanted, at_most), make=int)
        return len(self._partitions)

    async def find_unpublished(self) -> Sequence[OutboxEvent]:
        """Return the next rows to publish after those that this transaction has read, locked until
        it ends.
        """
        return [row for row in await self.find_page() if isinstance(row, OutboxEvent)]

    async def find_page(self) -> Sequence[Row]:
        """The same, including rows that can never be published. An empty page: none is left."""
        if self._left is None:
            self._left = await find_positions(self._session, self._partitions, self._round)
        while wanted := self._left[: self._limit]:
            pairs = await self._read(wanted)
            del self._left[: bisect_right(self._left, pairs[-1][0] if pairs else wanted[-1])]
            if pairs:
                return [row for _, row in pairs]
        return ()

    async def _read(self, positions: Sequence[int]) -> Sequence[PlacedRow]:
        if self._limit > 1:
            return await find_page(self._session, positions, self._most)
        return await find_alone(self._session, positions[0], self._most)

    async def mark_published(self, id: UUID) -> None:  # noqa: A002 - the specification's name
        await self._session.execute(MARK_ONE, (id,))

    async def mark_all_published(
        self, publish_acks: Sequence[PublishAck], stream_created: str
    ) -> None:
        """Mark the rows of these publish acks in one statement, and record where each event is
        stored (`broker_loss` reads that).
        """
        ids, sequences = (
            [publish_ack.id for publish_ack in publish_acks],
            [publish_ack.sequence for publish_ack in publish_acks],
        )
        where = (publish_acks[0].stream, stream_created, max(sequences))
        await self._session.execute(MARK, (write_array(ids), *where, write_array(sequences)))

    async def increment_attempts(self, id: UUID, error: str, *, is_hopeless: bool = False) -> bool:  # noqa: A002
        """Count one failure of this row; return whether it is parked now. `error` holds no payload."""
        failures = 1 + (await self._session.fetch_one(SELECT_FAILURES, (id,), make=int) or 0)
        is_parked = is_hopeless or failures >= self._relay.attempts
        delay_s = delay_after(failures, self._relay.backoff_ms) / 1000
        await self._session.execute(
            UPDATE_FAILED, (error[:MOST_OF_AN_ERROR], id, delay_s, is_parked)
        )
        return is_parked


# -- List rows that failed or are parked, and put parked rows back among those to publish.
#
# A parked row holds back its aggregate, to keep the order. Mend the cause and requeue it; or, if it
# must never be published, delete it from outbox_events while no relay works: the rows behind it are
# then published.
#
# To requeue waits for the batch that a relay has in hand, by the lock of the row's partition. That
# batch may have passed the row already, and would publish those behind it first.


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


# -- Delete published rows after a while, few at a time, so that no vacuum, lock or replica has to
# process a million at once.
#
# Their ack rows say which rows they are, oldest first: the specified table has no index on
# published_at, and needs none.


log = logs.logger(__name__)

EVERY_S = 60.0
ACK_ROWS = 2  # deleted in one transaction, each with the rows of one marking (at most 1000)
PAUSE_S = 0.05  # between two transactions

DELETE_OLD_ROWS: Final = """
    WITH old AS (
      DELETE FROM outbox_publish_acks WHERE id IN (
        SELECT id FROM outbox_publish_acks WHERE published_at < now() - make_interval(secs => %s)
        ORDER BY published_at LIMIT %s FOR UPDATE SKIP LOCKED)
      RETURNING outbox_ids
    ), gone AS (
      DELETE FROM outbox_events USING old WHERE id = ANY(old.outbox_ids) AND published_at IS NOT NULL RETURNING 1
    )
    SELECT (SELECT count(*) FROM old), (SELECT count(*) FROM gone)"""


class CleanupResult(Struct, frozen=True):
    ack_rows: int
    rows: int


async def clean(session: Session, keep_s: float, ack_rows: int) -> CleanupResult:
    """Delete the rows of one transaction."""
    return await session.fetch_one(
        DELETE_OLD_ROWS, (keep_s, ack_rows), make=CleanupResult
    ) or CleanupResult(0, 0)


class OutboxRetention:
    """The child that deletes old rows. Several may run: each takes ack rows that no other holds."""

    def __init__(self, database: Database, keep_s: float, *, ack_rows: int = ACK_ROWS) -> None:
        self._database = database
        self._keep_s, self._ack_rows = keep_s, ack_rows
        self.cleaned = 0

    async def run(self) -> None:
        """Run until cancelled. Raises DatabaseUnavailable, DatabaseRefused: it is a helper, and its
        supervisor starts it again.
        """
        while True:
            rows = await self.sweep()
            if rows:
                log.info(events.OUTBOX_CLEANED, rows=rows)
            await asyncio.sleep(EVERY_S)

    async def sweep(self) -> int:
        """Delete all rows that are old enough now; return how many."""
        rows = 0
        while True:
            async with self._database.transaction() as session:
                cleaned = await clean(session, self._keep_s, self._ack_rows)
            rows += cleaned.rows
            self.cleaned += cleaned.rows
            if cleaned.ack_rows < self._ack_rows:
                return rows
            await asyncio.sleep(PAUSE_S)
