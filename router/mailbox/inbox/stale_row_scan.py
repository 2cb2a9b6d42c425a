"""Find rows that were received and never processed, of messages that the server delivers no more (docs/requirements.md#x18).

    a row older than all its deliveries ──> look for its message on its subject
        the durable is done with it   not delivered again: write its dead letter, as the max-deliver recovery does
        the durable is not            still to be delivered: leave it
        not in the stream             deleted, or never there: write a dead letter that says so

The recovery handles nearly all of them; this scan finds the rest: an advisory that was lost, a message that was deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from msgspec import Struct

from router.core import ids
from router.core.errors import BrokerRefused, BrokerUnavailable, RouterError
from router.core.outcome import Done
from router.delivery.acked_publisher import AckedPublisher, NotPublished
from router.delivery.api import JetStream, StoredMessage
from router.delivery.storing import open_publisher
from router.delivery.stream_reader import open_reader
from router.mailbox.entities import InboxMessage
from router.mailbox.inbox.adapter import PostgresInboxAdapter
from router.mailbox.inbox.event import message_id_of
from router.mailbox.inbox.max_deliver_recovery import InboxMaxDeliverRecovery
from router.mailbox.postgres import Database
from router.operations.observability import events, logs

log = logs.logger(__name__)

HEADERS_PER_READ = 1000  # headers in one read
NO_SUBJECT_OF_THE_STREAM = 10093  # JetStream's error: a consumer's filter is no part of its stream's subjects


class StaleRowScanRules(Struct, frozen=True, kw_only=True):
    """Seconds. `older_than_s`: longer than all deliveries of one message take together."""

    every_s: float = 60.0
    older_than_s: float = 3600.0
    most: int = 1000  # rows in one scan


class StaleRowScan:
    """Of one inbox; `run` is a supervised child."""

    def __init__(
        self,
        jetstream: JetStream,
        database: Database,
        recovery: InboxMaxDeliverRecovery,
        rules: StaleRowScanRules = StaleRowScanRules(),  # noqa: B008 - frozen
    ) -> None:
        self._jetstream = jetstream
        self._database = database
        self._recovery = recovery
        self._stream, self._durable = recovery.stream, recovery.durable
        self._rules = rules

    async def run(self) -> None:
        """Scan now and then, for ever; retry when the database or the broker is unavailable."""
        while True:
            try:
                await self.scan()
            except RouterError as exc:
                log.warning(events.SWEEP_FAILED, consumer=self._durable, cause=str(exc))
            await asyncio.sleep(self._rules.every_s)

    async def scan(self) -> int:
        """Scan once; return how many dead letters it wrote. Raises DatabaseUnavailable, BrokerUnavailable."""
        async with self._database.transaction() as session:
            rows = await PostgresInboxAdapter(session).list_unprocessed(self._rules.older_than_s, self._rules.most)
        if not rows:
            return 0
        until = await self._last_done_sequence()
        places = {subject: await self._sequences_by_id(subject) for subject in {row.subject for row in rows}}
        async with open_publisher(self._jetstream) as acked_publisher:
            return sum([await self._close(acked_publisher, row, places[row.subject].get(str(row.message_id)), until) for row in rows])

    async def _last_done_sequence(self) -> int:
        """The last sequence that the durable is done with. Its ack floor alone stands still behind what was given up last."""
        info = await self._jetstream.consumer(self._stream, self._durable)
        if info is None:
            raise BrokerUnavailable(f"consumer {self._durable} is missing: what it still delivers is unknown")
        return int(info["ack_floor" if info["num_ack_pending"] else "delivered"]["stream_seq"])

    async def _sequences_by_id(self, subject: str) -> dict[str, int]:
        """Return the sequences of all messages on a subject by message id; none for a subject that the stream does not accept."""
        found: dict[str, int] = {}
        if not ids.is_literal_subject(subject):
            return found
        try:
            async with open_reader(self._jetstream, self._stream, subject=subject, headers_only=True) as reader:
                while heads := await reader.read(HEADERS_PER_READ):
                    found.update(self._ids_of(heads))
        except BrokerRefused as exc:
            if exc.err_code != NO_SUBJECT_OF_THE_STREAM:
                raise
        return found

    def _ids_of(self, heads: Iterable[StoredMessage]) -> dict[str, int]:
        return {message_id_of(self._recovery.to_message(head)): head.sequence for head in heads}

    async def _close(self, acked_publisher: AckedPublisher, row: InboxMessage, place: int | None, until: int) -> bool:
        if place is not None and place > until:
            return False
        stored = await self._jetstream.message(self._stream, place) if place is not None else None
        done = await self._recovery.give_up(stored) if stored is not None else self._recovery.give_up_row(row)
        return await self._store(acked_publisher, done)

    async def _store(self, acked_publisher: AckedPublisher, done: Done) -> bool:
        if not done.effects or done.commit is None:
            return False
        publish_acks = await acked_publisher.publish_and_wait(done.effects)
        if isinstance(publish_acks, NotPublished):
            raise BrokerUnavailable(f"a dead letter cannot be stored: {publish_acks.cause}")
        if (committing := done.commit(publish_acks)) is not None:
            await committing
        return True
