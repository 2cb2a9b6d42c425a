"""Count the attempts of a message: how often its handler was started, over all processes that share
the durable.

JetStream counts deliveries, and a delivery is no attempt: a drained prefetch or a dead process
raises the count of messages that no handler ever saw. So each message whose first attempt does not
succeed has a record in a key-value bucket (key: stream, consumer, sequence and stream time), which
only compare-and-set changes:

    a first delivery fails                 -> create the record: 1
    a redelivery is about to start         -> add 1; at the limit the message is given up and its
                                           handler does not start
    a first delivery that was never started -> create the record: 0
    an attempt that must not count         -> subtract 1, unless another process has written since

No process decides by a count of its own: one that remembers a record only saves reading it. A
message that succeeds at its first attempt costs no write. A redelivery without a record counts the
first delivery as an attempt, because its process may have started it before it died; `?` in the
record marks this as assumed, so that this process, if it is alive after all, does not count it
again.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from router.core.errors import BrokerUnavailable, StorageRefused
from router.core.ids import bucket_prefix, key, random_tokens
from router.core.message import Effect, Message
from router.delivery.publish.acked_publisher import AckedPublisher, NotPublished
from router.delivery.wire.api import LAST_SEQUENCE_DIFFERS, JetStream, StoredMessage
from router.delivery.wire.connection import head_of
from router.delivery.wire.publish_faults import PublishFault, find_fault

EXPECTED = "Nats-Expected-Last-Subject-Sequence"


class AttemptRecord(Struct, frozen=True):
    """`revision` 0: there is no record. `was_begun`: a handler has seen the message, even if
    `attempts` is 0.

    `writer`: the delivery and process that wrote it, so that a write whose publish ack was lost is
    recognized.
    """

    attempts: int
    revision: int = 0
    is_first_assumed: bool = False
    was_begun: bool = False
    writer: str = ""

    def limit(self, most: int) -> int:
        """The limit of attempts: at least 2 where the first attempt is only assumed."""
        return max(2, most) if self.is_first_assumed else most


NO_ATTEMPT = AttemptRecord(0)
FIRST_ASSUMED = AttemptRecord(1, is_first_assumed=True)


class AttemptCounter:
    """The attempt records of one bucket."""

    def __init__(self, jetstream: JetStream, publisher: AckedPublisher, bucket: str) -> None:
        self._jetstream = jetstream
        self._publisher = publisher
        self._stream = f"KV_{bucket}"
        self._prefix = bucket_prefix(bucket)
        self._connection = jetstream.connection
        self._process = next(random_tokens())

    async def count_begin(
        self, message: Message, attempt_record: AttemptRecord | None, most: int, writer: str = ""
    ) -> tuple[Message, bool]:
        """Count the attempt that is about to start. Returns the message with its number, and
        whether the handler may start.

        False: `most` attempts are counted already, and nothing was written.
        `attempt_record`: the record as this process wrote it.
        `writer`: from `name_writer`, if this may be called again for the
        same delivery. Raises BrokerUnavailable.
        """
        writer = writer or self.name_writer(message)
        record = attempt_record or await self._find(message, FIRST_ASSUMED)
        while record.attempts < record.limit(most) and record.writer != writer:
            wanted = replace(record, attempts=record.attempts + 1, was_begun=True)
            if (revision := await self._write(message, wanted, writer)) is not None:
                return _set_attempt(
                    message, replace(wanted, revision=revision), is_recorded=record.was_begun
                ), True
            record = await self._find(message, FIRST_ASSUMED)
        is_ours = record.writer == writer  # the publish ack was lost, but the record was written
        return _set_attempt(
            message, record, is_recorded=not is_ours or record.attempts > 2
        ), is_ours

    async def count_failure(self, message: Message, writer: str = "") -> Message:
        """Count a first delivery that failed; returns the message with its number. Likewise."""
        writer = writer or self.name_writer(message)
        record = NO_ATTEMPT
        while record.writer != writer:
            is_counted = record.is_first_assumed  # a redelivery meanwhile has counted this attempt
            wanted = replace(
                record,
                attempts=record.attempts + (not is_counted),
                is_first_assumed=False,
                was_begun=True,
            )
            if (revision := await self._write(message, wanted, writer)) is not None:
                counted = replace(
                    wanted, revision=revision, attempts=1 if is_counted else wanted.attempts
                )
                return _set_attempt(message, counted, is_recorded=record.was_begun)
            record = await self._find(message, NO_ATTEMPT)
        return _set_attempt(message, record, is_recorded=record.attempts > 1)

    def give_back(self, message: Message, *, was_begun: bool) -> None:
        """Take this attempt off the record, unless another process has written since."""
        head = head_of({EXPECTED: str(message.revision)})
        record = AttemptRecord(
            message.attempts - 1, is_first_assumed=message.is_first_assumed, was_begun=was_begun
        )
        self._connection.publish_nowait(
            self._jetstream.write_subject(self._subject(message)), _text(record), "", head
        )

    def forget(self, message: Message) -> None:
        """The message is settled: delete its record. One that survives expires with the bucket's
        TTL.
        """
        self._connection.publish_nowait(
            self._jetstream.write_subject(self._subject(message)), b"", "", _PURGE
        )

    async def _find(self, message: Message, otherwise: AttemptRecord) -> AttemptRecord:
        """The record, or `otherwise`; a deleted record leaves its revision."""
        stored = await self._jetstream.get_last(self._stream, self._subject(message))
        if stored is None:
            return otherwise
        return _record_in(stored) or replace(otherwise, revision=stored.sequence)

    def name_writer(self, message: Message) -> str:
        """Names this delivery in this process, so that its own record is known again, also when
        another server answers by then.

        A killed server may count deliveries anew, so it includes the reconnects.
        """
        return f"{self._subject(message)}:{self._process}:{self._connection.reconnect_count}:{message.deliveries}"

    async def _write(self, message: Message, record: AttemptRecord, writer: str) -> int | None:
        """Replace the record at `record.revision`; returns the new revision, or None when another
        process wrote first.
        """
        subject, expected = self._subject(message), str(record.revision)
        message_id = f"{writer}:{expected}"
        effect = Effect(
            self._jetstream.write_subject(subject), _text(record), message_id, {EXPECTED: expected}
        )
        publish_ack = await self._publisher.publish_and_wait([effect])
        if not isinstance(publish_ack, NotPublished):
            return publish_ack[0].sequence
        if publish_ack.err_code in LAST_SEQUENCE_DIFFERS:
            return None
        # A record is a few bytes: where it is too large the bucket is at fault, not the message.
        refuses = (
            BrokerUnavailable
            if find_fault(publish_ack.err_code) is PublishFault.SERVER
            else StorageRefused
        )
        raise refuses(f"an attempt cannot be recorded: {publish_ack.cause}")

    def _subject(self, message: Message) -> str:
        return self._prefix + key(
            message.stream, message.consumer, str(message.sequence), str(message.stored_ns)
        )


def _set_attempt(message: Message, record: AttemptRecord, *, is_recorded: bool) -> Message:
    return replace(
        message,
        attempts=record.attempts,
        revision=record.revision,
        is_first_assumed=record.is_first_assumed,
        is_recorded=is_recorded,
    )


def _text(record: AttemptRecord) -> bytes:
    return f"{record.attempts}{'?' * record.is_first_assumed}{'+' * record.was_begun}".encode()


def _record_in(stored: StoredMessage) -> AttemptRecord | None:
    text = stored.data[:_LONGEST]
    digits = text.rstrip(b"?+")
    if not digits.isdigit():
        return None
    writer = stored.headers.get("Nats-Msg-Id", _UNKNOWN_WRITER).rpartition(":")[0]
    return AttemptRecord(int(digits), stored.sequence, b"?" in text, b"+" in text, writer)


_UNKNOWN_WRITER = "none:"
_LONGEST = 11  # nine digits and two flags: more attempts than anything may have
_PURGE = head_of({"KV-Operation": "PURGE", "Nats-Rollup": "sub"})
