"""outbox_events as one transaction sees it (PORT-047-001), and what the relay needs beyond the
port.

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

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from router.core.backoff import delay_after
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
from router.mailbox.postgres import Session
from router.mailbox.settings import RelayConfig

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
            found = await self._read(wanted)
            del self._left[: bisect_right(self._left, found[-1][0] if found else wanted[-1])]
            if found:
                return [row for _, row in found]
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
