"""Find inbox rows that no delivery will process any more, and give them up
(docs/reference/requirements.md#x18).

A row is stale if its message was received and not processed, and every delivery that the server
allows must be over by its age. For each stale row the scan looks for its message on the row's
subject:

    at or below the last settled sequence   the server delivers it no more: end it as the
                                            max-deliver recovery does, or try at the next scan
    above it                                the server still delivers it: leave the row
    not in the stream                       it was deleted: store a dead letter that says so

The scan reads nothing for a row whose message this process has in hand. For the others it reads
first above the last settled sequence, and below it only for what it did not find. It keeps the
sequences of its rows' messages alone, however many messages their subject has.

The max-deliver recovery handles nearly all such messages. The scan finds those whose advisory was
lost, or whose message was deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from router.core import ids
from router.core.errors import BrokerRefused, BrokerUnavailable, RouterError
from router.core.outcome import Done
from router.delivery.consume.stream_reader import open_reader
from router.delivery.publish.acked_publisher import AckedPublisher, NotPublished
from router.delivery.publish.storing import open_publisher
from router.delivery.wire.api import JetStream, StoredMessage
from router.mailbox.entities import InboxMessage
from router.mailbox.inbox.adapter import PostgresInboxAdapter
from router.mailbox.inbox.event import message_id_of
from router.mailbox.inbox.max_deliver_recovery import InboxMaxDeliverRecovery
from router.mailbox.postgres import Database
from router.mailbox.settings import InboxConfig
from router.process.observability import events, logs

log = logs.logger(__name__)

MAX_ROWS = 1000  # of one scan
HEADERS_PER_READ = 1000  # headers in one read
# JetStream's error: a consumer's filter is no part of its stream's subjects
NO_SUBJECT_OF_THE_STREAM = 10093


class StaleRowScan:
    """The scan of one inbox; `run` is a supervised child."""

    def __init__(
        self,
        jetstream: JetStream,
        database: Database,
        recovery: InboxMaxDeliverRecovery,
        settings: InboxConfig,
    ) -> None:
        self._jetstream = jetstream
        self._database = database
        self._recovery = recovery
        self._stream, self._durable = recovery.stream, recovery.durable
        self._every_s = settings.sweep_ms / 1000
        self._older_than_s = settings.stranded_after_ms / 1000

    async def run(self) -> None:
        """Scan every `inbox.sweep_ms` until cancelled. A scan that fails because the database or
        the broker is unavailable is logged.
        """
        while True:
            try:
                await self.scan()
            except RouterError as exc:
                log.warning(events.STALE_ROW_SCAN_FAILED, consumer=self._durable, cause=str(exc))
            await asyncio.sleep(self._every_s)

    async def scan(self) -> int:
        """Scan once; return how many dead letters were stored. Raises DatabaseUnavailable,
        BrokerUnavailable.
        """
        async with self._database.transaction() as session:
            old = await PostgresInboxAdapter(session).list_unprocessed(self._older_than_s, MAX_ROWS)
        rows = [row for row in old if not self._recovery.is_in_hand(str(row.message_id))]
        if not rows:
            return 0
        last_settled = await self._read_last_settled()
        sequences = await self._find_sequences(rows, last_settled)
        pairs = [(row, sequences.get(str(row.message_id))) for row in rows]
        # what needs no handler does not wait for one
        pairs.sort(key=lambda pair: pair[1] is not None)
        async with open_publisher(self._jetstream) as acked_publisher:
            return sum(
                [
                    await self._give_up(acked_publisher, row, sequence, last_settled)
                    for row, sequence in pairs
                ]
            )

    async def _read_last_settled(self) -> int:
        """The last sequence that the durable delivers no more. The ack floor alone stays below the
        messages that were given up last.
        """
        info = await self._jetstream.consumer(self._stream, self._durable)
        if info is None:
            raise BrokerUnavailable(
                f"consumer {self._durable} is missing: what it still delivers is unknown"
            )
        return int(info["ack_floor" if info["num_ack_pending"] else "delivered"]["stream_seq"])

    async def _find_sequences(
        self, rows: Sequence[InboxMessage], last_settled: int
    ) -> dict[str, int]:
        """A sequence of each row's message on its subject, by message id: one above `last_settled`
        where there is one, else the last.
        """
        wanted: dict[str, set[str]] = {}
        for row in rows:
            wanted.setdefault(row.subject, set()).add(str(row.message_id))
        by_message: dict[str, int] = {}
        for subject, message_ids in wanted.items():
            by_message |= await self._find_on_subject(subject, message_ids, last_settled)
        return by_message

    async def _find_on_subject(
        self, subject: str, wanted: set[str], last_settled: int
    ) -> dict[str, int]:
        """The same for one subject; empty for one that the stream does not accept."""
        if not ids.is_literal_subject(subject):
            return {}
        try:
            above = await self._read_sequences(subject, wanted, last_settled + 1)
            return above | await self._read_sequences(
                subject, wanted - above.keys(), 1, last_settled
            )
        except BrokerRefused as exc:
            if exc.err_code != NO_SUBJECT_OF_THE_STREAM:
                raise
            return {}

    async def _read_sequences(
        self, subject: str, wanted: set[str], start: int, last: int | None = None
    ) -> dict[str, int]:
        """A sequence of each wanted message that stands at `start` or above, by message id; reading
        ends with the page that holds `last`.

        Without `last`, reading ends when every message was found.
        """
        by_message: dict[str, int] = {}
        if not wanted:
            return by_message
        async with open_reader(
            self._jetstream, self._stream, start, subject=subject, headers_only=True
        ) as reader:
            while heads := await reader.read(HEADERS_PER_READ):
                by_message.update(
                    (message_id, head.sequence)
                    for head in heads
                    if (message_id := self._id_of(head)) in wanted
                )
                is_done = (
                    len(by_message) == len(wanted) if last is None else heads[-1].sequence >= last
                )
                if is_done:
                    break
        return by_message

    def _id_of(self, head: StoredMessage) -> str:
        return message_id_of(self._recovery.to_message(head))

    async def _give_up(
        self,
        acked_publisher: AckedPublisher,
        row: InboxMessage,
        sequence: int | None,
        last_settled: int,
    ) -> bool:
        """Store the row's dead letter. False: its message is still to be delivered, has no answer
        yet, or was processed meanwhile.
        """
        if sequence is not None and sequence > last_settled:
            return False
        stored = (
            await self._jetstream.message(self._stream, sequence) if sequence is not None else None
        )
        outcome = (
            await self._recovery.recover(stored)
            if stored is not None
            else self._recovery.give_up_row(row)
        )
        return isinstance(outcome, Done) and await self._store(acked_publisher, outcome)

    async def _store(self, acked_publisher: AckedPublisher, done: Done) -> bool:
        if not done.effects or done.commit is None:
            return False
        publish_acks = await acked_publisher.publish_and_wait(done.effects)
        if isinstance(publish_acks, NotPublished):
            raise BrokerUnavailable(f"a dead letter cannot be stored: {publish_acks.cause}")
        if (committing := done.commit(publish_acks)) is not None:
            await committing
        return True
