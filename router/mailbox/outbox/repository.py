"""outbox_events as one transaction sees it (PORT-047-001), and what the relay needs beyond the port.

Exclusive work without a lease, so without a clock: an aggregate belongs to one of eight lanes, a transaction takes lanes by
advisory locks and rows by SKIP LOCKED, and all of them end with it, however it ends.

    lanes    claim_lanes(at_most)        this transaction's alone; a relay that finds none stands by
    rows     find_unpublished()          of these lanes, the next page by (occurred_at, id); none of an aggregate that waits or is parked
    marks    mark_all_published(…)       one statement for all
    failures increment_attempts(…)       the row's own: counted, with backoff, parked at last

`published_at IS NULL` is the only truth about what is left; a high-water mark would pass over what commits late.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from msgspec import Raw, Struct

from router.backoff import delay_after
from router.mailbox.entities import OutboxEvent
from router.mailbox.postgres import Session
from router.outcome import Receipt

LANES: Final = 8
FIRST: Final = (datetime.min.replace(tzinfo=UTC), UUID(int=0))

CLAIM_LANES: Final = """
    SELECT lane FROM unnest(%s::int[]) AS lane
    WHERE pg_try_advisory_xact_lock(hashtext('router.outbox.' || current_schema()), lane) LIMIT %s"""

FIND: Final = """
    SELECT e.id, e.aggregate_type, e.aggregate_id, e.event_type, e.payload::text, e.event_version, e.occurred_at,
           e.correlation_id, e.causation_id
    FROM outbox_events AS e
    WHERE e.published_at IS NULL AND e.occurred_at <= now() AND e.occurred_at >= %s AND (e.occurred_at, e.id) > (%s, %s)
      AND hashtext(e.aggregate_type || '/' || e.aggregate_id) & 7 = ANY(%s)
      AND (e.aggregate_type, e.aggregate_id) NOT IN (
        SELECT s.aggregate_type, s.aggregate_id FROM outbox_relay_state AS s WHERE s.parked_at IS NOT NULL OR s.next_attempt_at > now())
    ORDER BY e.occurred_at, e.id LIMIT %s FOR UPDATE OF e SKIP LOCKED"""

MARK: Final = """
    WITH told AS (
      SELECT %s::uuid[] AS ids
    ), receipt AS (
      INSERT INTO outbox_receipts (stream, stream_created, last_sequence, outbox_ids, sequences)
      SELECT %s, %s, %s, ids, %s::bigint[] FROM told
    ), mended AS (
      DELETE FROM outbox_relay_state USING told WHERE outbox_id = ANY(told.ids)
    )
    UPDATE outbox_events SET published_at = clock_timestamp(), publish_attempts = publish_attempts + 1, publish_error = NULL
    FROM told WHERE id = ANY(told.ids)"""

MARK_ONE: Final = """
    UPDATE outbox_events SET published_at = clock_timestamp(), publish_attempts = publish_attempts + 1, publish_error = NULL
    WHERE id = %s AND published_at IS NULL"""

FAILURES: Final = "SELECT failures FROM outbox_relay_state WHERE outbox_id = %s"

FAIL: Final = """
    WITH failed AS (
      UPDATE outbox_events SET publish_attempts = publish_attempts + 1, publish_error = %s
      WHERE id = %s AND published_at IS NULL RETURNING id, aggregate_type, aggregate_id
    )
    INSERT INTO outbox_relay_state AS s (outbox_id, aggregate_type, aggregate_id, failures, next_attempt_at, parked_at)
    SELECT id, aggregate_type, aggregate_id, 1, now() + make_interval(secs => %s), CASE WHEN %s THEN now() END FROM failed
    ON CONFLICT (outbox_id) DO UPDATE
    SET failures = s.failures + 1, next_attempt_at = EXCLUDED.next_attempt_at, parked_at = EXCLUDED.parked_at"""


class Patience(Struct, frozen=True):
    """How long a row that fails is tried again. `backoff`: seconds by attempt, the last repeats; then it is parked."""

    attempts: int = 10
    backoff: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)


class PostgresOutboxAdapter:
    """One transaction's outbox (SD-21, SD-35). `limit`: rows of one page."""

    def __init__(self, session: Session, *, limit: int = 500, patience: Patience = Patience()) -> None:  # noqa: B008 - frozen
        self._session = session
        self._limit = limit
        self._patience = patience
        self._lanes: list[int] = list(range(LANES))
        self._after = FIRST  # the last row that was told

    async def claim_lanes(self, at_most: int = LANES, first: int = 0) -> int:
        """Take lanes for this transaction, from `first` on; how many were free."""
        wanted = [(first + place) % LANES for place in range(LANES)]
        self._lanes = await self._session.fetch(CLAIM_LANES, (wanted, at_most), make=int)
        return len(self._lanes)

    async def find_unpublished(self) -> Sequence[OutboxEvent]:
        """What is to be published after what this transaction has found before, locked until it ends."""
        found = await self._session.fetch(FIND, (self._after[0], *self._after, self._lanes, self._limit), make=_event)
        if found and (occurred_at := found[-1].occurred_at) is not None:
            self._after = (occurred_at, found[-1].id)
        return found

    async def mark_published(self, id: UUID) -> None:  # noqa: A002 - the specification's name
        await self._session.execute(MARK_ONE, (id,))

    async def mark_all_published(self, receipts: Sequence[Receipt], stream_created: str) -> None:
        """Mark the rows of these receipts by one statement, and write down where each stands (`lost` reads it)."""
        ids, sequences = [receipt.id for receipt in receipts], [receipt.sequence for receipt in receipts]
        where = (receipts[0].stream, stream_created, max(sequences))
        await self._session.execute(MARK, (_array(ids), *where, _array(sequences)))

    async def increment_attempts(self, id: UUID, error: str, *, is_hopeless: bool = False) -> bool:  # noqa: A002
        """Count one failure of this row itself; whether it is parked now. `error` holds no payload."""
        failures = 1 + (await self._session.one(FAILURES, (id,), make=int) or 0)
        is_parked = is_hopeless or failures >= self._patience.attempts
        await self._session.execute(FAIL, (error, id, delay_after(failures, self._patience.backoff), is_parked))
        return is_parked


def _array(values: Sequence[str] | Sequence[int]) -> str:
    """As PostgreSQL reads one. The driver would quote each value by itself: a third of what the relay computes."""
    return f"{{{','.join(map(str, values))}}}"


def _event(  # noqa: PLR0917 - a row is told column by column
    event_id: UUID,
    aggregate_type: str,
    aggregate_id: str,
    event_type: str,
    payload: str,
    version: int,
    occurred_at: datetime,
    correlation_id: UUID | None,
    causation_id: UUID | None,
) -> OutboxEvent:
    body = Raw(payload.encode())
    return OutboxEvent(event_id, aggregate_type, aggregate_id, event_type, body, version, occurred_at, correlation_id, causation_id)
