"""The inbox's rows: `InboxRepository` on PostgreSQL, one row at a time as specified, and many at
once as the consumer needs it; written together, and removed after a while.

    receive   insert a row, or add an attempt; a processed message is not in the answer
              (docs/explanation/durability.md#inbox)
    lock      mark rows as processed and hold them until the transaction ends: two processes never
              apply one message. It makes a row that
              is missing, as after a failover to an asynchronous standby: only a row that is there
              says "processed"
    settle    write the results of many messages in one statement

Both times are the database's own clock, and the later of the two if that clock steps back
(POL-047-004).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, LiteralString
from uuid import UUID

from msgspec import Struct

from router.core.coalescer import GroupCommit
from router.core.errors import RouterError
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import NANOS_PER_S
from router.mailbox.entities import InboxMessage
from router.mailbox.errors import DatabaseRefused, DatabaseUnavailable
from router.mailbox.postgres import Database, Session
from router.process.observability import events, logs

_RECEIVE: Final[LiteralString] = """
INSERT INTO inbox_messages AS i (message_id, subject, attempts)
SELECT message_id, subject, 1 FROM unnest(%s::uuid[], %s::text[]) AS new (message_id, subject) ORDER BY message_id
ON CONFLICT (message_id) DO UPDATE SET attempts = LEAST(i.attempts, 2147483646) + 1 WHERE i.processed_at IS NULL
RETURNING i.message_id::text, i.attempts
"""
_LOCK: Final[LiteralString] = """
INSERT INTO inbox_messages AS i (message_id, subject, attempts, processed_at)
SELECT message_id, subject, attempts, now() FROM unnest(%s::uuid[], %s::text[], %s::int[]) AS begun (message_id, subject, attempts)
ORDER BY message_id
ON CONFLICT (message_id) DO UPDATE SET processed_at = GREATEST(now(), i.received_at), last_error = NULL WHERE i.processed_at IS NULL
RETURNING i.message_id::text
"""
_SETTLE: Final[LiteralString] = """
UPDATE inbox_messages AS i
SET processed_at = CASE WHEN mark.is_processed THEN GREATEST(now(), i.received_at) END, last_error = mark.error,
    attempts = GREATEST(i.attempts + mark.attempts, 0)
FROM unnest(%s::uuid[], %s::bool[], %s::text[], %s::int[]) AS mark (message_id, is_processed, error, attempts)
WHERE i.message_id = mark.message_id AND i.processed_at IS NULL
"""
_ATTEMPTS_OF: Final[LiteralString] = """
SELECT CASE WHEN processed_at IS NULL THEN attempts END FROM inbox_messages WHERE message_id = %s::uuid
"""
_UNPROCESSED: Final[LiteralString] = """
SELECT message_id, left(subject, 1025), CASE WHEN received_at BETWEEN '0001-01-01' AND now() THEN received_at END, processed_at, attempts,
       left(last_error, 500)
FROM inbox_messages
WHERE processed_at IS NULL AND (received_at < now() - make_interval(secs => %s) OR received_at > now() + interval '1 day')
ORDER BY received_at LIMIT %s
"""
_CLAIM: Final[LiteralString] = """
INSERT INTO inbox_durable AS d (stream, durable) VALUES (%s, %s)
ON CONFLICT (is_only) DO UPDATE SET is_only = TRUE RETURNING d.stream, d.durable
"""


class InboxMark(Struct, frozen=True, gc=False):
    """The result of one message: processed or not, and the error if there is one. `attempts` is
    added to the row's.
    """

    message_id: str
    is_processed: bool
    error: str | None = None
    attempts: int = 0


class PostgresInboxAdapter:
    """`InboxRepository` within one transaction (docs/reference/requirements.md#sd-22)."""

    def __init__(self, session: Session) -> None:
        self._session = session

    # -- the port ----------------------------------------------------------------------------------

    async def insert(self, msg: InboxMessage) -> int | None:
        """Return how often the message was begun, this time included; None if it was processed, so
        skip it (docs/reference/requirements.md#sd-15).
        """
        return (await self.receive([(str(msg.message_id), msg.subject)])).get(str(msg.message_id))

    async def mark_processed(self, id: UUID) -> None:  # noqa: A002 - the specification's name
        await self.settle([InboxMark(str(id), True)])

    async def record_error(self, id: UUID, error: str) -> None:  # noqa: A002
        await self.settle([InboxMark(str(id), False, error)])

    # -- many at once ------------------------------------------------------------------------------

    async def receive(self, messages: Sequence[tuple[str, str]]) -> dict[str, int]:
        """Return attempts by message id, for those to process; `messages` holds each (id, subject)
        at most once.
        """
        columns = [message_id for message_id, _ in messages], [subject for _, subject in messages]
        return dict(await self._session.fetch(_RECEIVE, columns, make=_attempts))

    async def lock(self, messages: Sequence[tuple[str, str, int]]) -> set[str]:
        """Mark them as processed; return the ids of those that no other process had processed
        before.

        `messages` holds each (id, subject, attempts) at most once; a row that is missing is made
        with this subject and these attempts.
        """
        message_ids = [message_id for message_id, _, _ in messages]
        subjects, attempts = (
            [subject for _, subject, _ in messages],
            [count for _, _, count in messages],
        )
        return set(await self._session.fetch(_LOCK, (message_ids, subjects, attempts), make=str))

    async def settle(self, marks: Sequence[InboxMark]) -> int:
        """Write the marks; return how many rows changed. A processed row stays as it is."""
        columns = (
            [m.message_id for m in marks],
            [m.is_processed for m in marks],
            [m.error for m in marks],
            [m.attempts for m in marks],
        )
        return await self._session.execute(_SETTLE, columns)

    # -- reads -------------------------------------------------------------------------------------

    async def attempts_of(self, message_id: str) -> int | None:
        """Return how often the message was begun, 0 where no row is; None if it was processed."""
        counts = await self._session.fetch(_ATTEMPTS_OF, (message_id,), make=_attempt_count)
        return counts[0] if counts else 0

    async def list_unprocessed(self, older_than_s: float, most: int) -> list[InboxMessage]:
        """Return rows received longer ago than that and still not processed, oldest first,
        including those with an impossible time.

        No value of a column makes this fail: subjects and errors come cut, impossible times as
        None.
        """
        return await self._session.fetch(_UNPROCESSED, (older_than_s, most), make=InboxMessage)

    async def claim(self, stream: str, durable: str) -> tuple[str, str]:
        """Return the owner of this inbox; an inbox without an owner becomes ours
        (docs/reference/requirements.md#x9).
        """
        owner = await self._session.fetch_one(_CLAIM, (stream, durable), make=_owner)
        return owner if owner is not None else (stream, durable)


def _attempts(message_id: str, attempts: int) -> tuple[str, int]:
    return message_id, attempts


def _attempt_count(attempts: int | None) -> int | None:
    return attempts


def _owner(stream: str, durable: str) -> tuple[str, str]:
    return stream, durable


# -- Write the results of messages into their rows: one statement and one commit for many of them.
#
#     write(mark) ... write(mark) --> one UPDATE --> each writer goes on
#
# The writer waits for an unavailable database, however long: it must not forget an effect that is
# committed or a dead letter that is stored, and no message is acknowledged before its row says so.


MAX_ROWS_PER_UPDATE = 1000
LINGER_S = 0.005  # answers arrive one by one: a commit for each would cost more than its call


class InboxStatusWriter:
    """For one database; `run` does its work, until cancelled."""

    def __init__(self, database: Database, retry_s: float = 1.0) -> None:
        self._database = database
        self._retry_s = retry_s
        commits: GroupCommit[InboxMark, None] = GroupCommit(
            self._commit, MAX_ROWS_PER_UPDATE, LINGER_S
        )
        self.write = commits.add  # its result resolves when the mark is committed
        self.run = commits.run

    async def _commit(self, marks: Sequence[InboxMark]) -> Sequence[None]:
        while True:
            try:
                async with self._database.transaction() as session:
                    await PostgresInboxAdapter(session).settle(marks)
            except (DatabaseUnavailable, DatabaseRefused):
                await asyncio.sleep(self._retry_s)
            else:
                return [None] * len(marks)


# -- Processed rows leave after a while, some pages of the table at a time: the specified table
# has no index on processed_at.
#
# pages 0..99 │ 100..199 │ …  a row is the memory that its event was handled; it leaves when it is older than `keep`
#                             and the stream cannot hold its event any more, whichever is
#                             later
#
# A stream that keeps events for ever keeps its rows here for ever: a durable that is made anew
# would be given them all again.


log = logs.logger(__name__)

EVERY_S = 600.0
PAGES = 100  # of the table in one transaction, about eighty rows each
PAUSE_S = 0.05  # between two transactions

SELECT_TABLE_PAGES: Final = (
    "SELECT pg_relation_size('inbox_messages') / current_setting('block_size')::bigint"
)
DELETE_OLD_ROWS: Final = """
    DELETE FROM inbox_messages
    WHERE ctid >= %s::tid AND ctid < %s::tid AND processed_at < now() - make_interval(secs => %s)"""


class InboxRetention:
    """Of one inbox; `run` is a supervised child."""

    def __init__(
        self,
        database: Database,
        jetstream: JetStream,
        stream: str,
        keep_s: float,
        *,
        pages: int = PAGES,
        pause_s: float = PAUSE_S,
    ) -> None:
        self._database = database
        self._jetstream = jetstream
        self._stream = stream
        self._keep_s, self._every_s = keep_s, min(EVERY_S, keep_s / 4)
        self._pages_at_once, self._pause_s = pages, pause_s

    async def run(self) -> None:
        """Delete old rows now and then, for ever; retry when the database or the broker is
        unavailable.
        """
        while True:
            try:
                if rows := await self.sweep():
                    log.info(events.INBOX_CLEANED, rows=rows)
            except RouterError as exc:
                log.warning(events.INBOX_NOT_CLEANED, cause=str(exc))
            await asyncio.sleep(self._every_s)

    async def sweep(self) -> int:
        """Delete all rows that are old enough now; return how many. Raises DatabaseUnavailable,
        BrokerUnavailable.
        """
        if (keep := await self._keep()) is None:
            return 0
        rows = 0
        for first in range(0, await self._pages(), self._pages_at_once):
            async with self._database.transaction() as session:
                rows += await session.execute(
                    DELETE_OLD_ROWS, (f"({first},0)", f"({first + self._pages_at_once},0)", keep)
                )
            await asyncio.sleep(self._pause_s)
        return rows

    async def _keep(self) -> float | None:
        """Seconds; None: keep for ever, also while the stream's own limit is unknown."""
        info = await self._jetstream.stream(self._stream)
        max_age_ns = info["config"].get("max_age", 0) if info is not None else 0
        return max(self._keep_s, max_age_ns / NANOS_PER_S) if max_age_ns else None

    async def _pages(self) -> int:
        async with self._database.transaction() as session:
            return await session.fetch_one(SELECT_TABLE_PAGES, make=int) or 0
