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

Nearly always one write counts it (`try_begin`, `try_failure`): its publish ack comes by callback,
and costs no task. Only where another process has written before is the record read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

from msgspec import Struct
from msgspec.structs import replace

from router.core.errors import BrokerUnavailable, RouterError, StorageRefused
from router.core.ids import bucket_prefix, key, random_tokens
from router.core.message import Effect, Message
from router.delivery.publish.acked_publisher import AckedPublisher, NotPublished, PublishAcks
from router.delivery.publish.encoded_headers import EncodedHeaders
from router.delivery.wire.api import LAST_SEQUENCE_DIFFERS, JetStream, StoredMessage
from router.delivery.wire.connection import head_of
from router.delivery.wire.publish_faults import PublishFault, find_fault

EXPECTED = "Nats-Expected-Last-Subject-Sequence"
IS_FREE = EncodedHeaders({EXPECTED: "0"})

# the message with its number; None: another process wrote first; or why it cannot be counted
Tried = Message | RouterError | None


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

    def is_left(self, most: int) -> bool:
        """Whether one more attempt may begin: at least 2 where the first is only assumed."""
        return self.attempts < (max(2, most) if self.is_first_assumed else most)

    def add_attempt(self) -> AttemptRecord:
        """What the next attempt writes over it."""
        return AttemptRecord(self.attempts + 1, 0, self.is_first_assumed, was_begun=True)


NO_ATTEMPT = AttemptRecord(0)
FIRST_FAILED = AttemptRecord(1, was_begun=True)
FIRST_ASSUMED = AttemptRecord(1, is_first_assumed=True)


class AttemptCounter:
    """The attempt records of one bucket."""

    def __init__(self, jetstream: JetStream, publisher: AckedPublisher, bucket: str) -> None:
        self._jetstream = jetstream
        self._publisher = publisher
        self._stream = f"KV_{bucket}"
        self._prefix = bucket_prefix(bucket)
        self._written = jetstream.write_subject(self._prefix)
        self._connection = jetstream.connection
        self._process = next(random_tokens())

    def try_begin(
        self, message: Message, record: AttemptRecord, writer: str, then: Callable[[Tried], None]
    ) -> None:
        """As `count_begin` of a record with an attempt left, by one write."""
        wanted = record.add_attempt()
        told = partial(_tell, then, message, wanted, record.was_begun)
        self._publisher.publish_one(self._effect(message, wanted, record.revision, writer), told)

    def try_failure(self, message: Message, writer: str, then: Callable[[Tried], None]) -> None:
        """As `count_failure` of a message without a record, by one write."""
        told = partial(_tell, then, message, FIRST_FAILED, False)
        self._publisher.publish_one(self._effect(message, FIRST_FAILED, 0, writer), told)

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
        while record.is_left(most) and record.writer != writer:
            wanted = record.add_attempt()
            revision = await self._write(message, wanted, record.revision, writer)
            if revision is not None:
                return _set_attempt(message, wanted, revision, is_recorded=record.was_begun), True
            record = await self._find(message, FIRST_ASSUMED)
        is_ours = record.writer == writer  # the publish ack was lost, but the record was written
        is_recorded = not is_ours or record.attempts > 2
        return _set_attempt(message, record, record.revision, is_recorded=is_recorded), is_ours

    async def count_failure(self, message: Message, writer: str = "") -> Message:
        """Count a first delivery that failed; returns the message with its number. Likewise."""
        writer = writer or self.name_writer(message)
        record = NO_ATTEMPT
        while record.writer != writer:
            is_counted = record.is_first_assumed  # a redelivery meanwhile has counted this attempt
            wanted = AttemptRecord(record.attempts + (not is_counted), was_begun=True)
            revision = await self._write(message, wanted, record.revision, writer)
            if revision is not None:
                counted = FIRST_FAILED if is_counted else wanted
                return _set_attempt(message, counted, revision, is_recorded=record.was_begun)
            record = await self._find(message, NO_ATTEMPT)
        return _set_attempt(message, record, record.revision, is_recorded=record.attempts > 1)

    def give_back(self, message: Message, *, was_begun: bool) -> None:
        """Take this attempt off the record, unless another process has written since."""
        head = head_of({EXPECTED: str(message.revision)})
        record = AttemptRecord(
            message.attempts - 1, is_first_assumed=message.is_first_assumed, was_begun=was_begun
        )
        self._connection.publish_nowait(self._written + _key_of(message), _text(record), "", head)

    def forget(self, message: Message) -> None:
        """The message is settled: delete its record. One that survives expires with the bucket's
        TTL.
        """
        self._connection.publish_nowait(self._written + _key_of(message), b"", "", _PURGE)

    async def _find(self, message: Message, otherwise: AttemptRecord) -> AttemptRecord:
        """The record, or `otherwise`; a deleted record leaves its revision."""
        stored = await self._jetstream.get_last(self._stream, self._prefix + _key_of(message))
        if stored is None:
            return otherwise
        return _record_in(stored) or replace(otherwise, revision=stored.sequence)

    def name_writer(self, message: Message) -> str:
        """Names this delivery in this process, so that its own record is known again, also when
        another server answers by then.

        A killed server may count deliveries anew, so it includes the reconnects.
        """
        subject, reconnects = self._prefix + _key_of(message), self._connection.reconnect_count
        return f"{subject}:{self._process}:{reconnects}:{message.deliveries}"

    async def _write(
        self, message: Message, record: AttemptRecord, revision: int, writer: str
    ) -> int | None:
        """Write it over the one of this revision; returns the new revision, or None when another
        process wrote first.
        """
        effect = self._effect(message, record, revision, writer)
        publish_acks = await self._publisher.publish_and_wait([effect])
        if not isinstance(publish_acks, NotPublished):
            return publish_acks[0].sequence
        if (error := _error_of(publish_acks)) is not None:
            raise error
        return None

    def _effect(
        self, message: Message, record: AttemptRecord, revision: int, writer: str
    ) -> Effect:
        return Effect(
            self._written + _key_of(message),
            _text(record),
            f"{writer}:{revision}",
            {EXPECTED: str(revision)} if revision else IS_FREE,
        )


def _tell(
    then: Callable[[Tried], None],
    message: Message,
    written: AttemptRecord,
    is_recorded: bool,
    result: PublishAcks | NotPublished,
) -> None:
    if isinstance(result, NotPublished):
        then(_error_of(result))
    else:
        then(_set_attempt(message, written, result[0].sequence, is_recorded=is_recorded))


def _error_of(refused: NotPublished) -> RouterError | None:
    """Why an attempt cannot be recorded; None: another process wrote first."""
    if refused.err_code in LAST_SEQUENCE_DIFFERS:
        return None
    # A record is a few bytes: where it is too large the bucket is at fault, not the message.
    is_silent = find_fault(refused.err_code) is PublishFault.SERVER
    kind = BrokerUnavailable if is_silent else StorageRefused
    return kind(f"an attempt cannot be recorded: {refused.cause}")


def _set_attempt(
    message: Message, record: AttemptRecord, revision: int, *, is_recorded: bool
) -> Message:
    return replace(
        message,
        attempts=record.attempts,
        revision=revision,
        is_first_assumed=record.is_first_assumed,
        is_recorded=is_recorded,
    )


def _key_of(message: Message) -> str:
    names = _names_of(message.stream, message.consumer)
    return f"{names}.{message.sequence}.{message.stored_ns}"


_names_of = lru_cache(maxsize=64)(key)  # numbers need no escape, and the names are few


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
