"""Starts: how often a handler was begun on a message, written down before it runs.

JetStream counts deliveries, and deliveries are not attempts: a drained prefetch or a crash beside it raises the
count of messages that nobody ever began (CONTRACTS §1). So from the second delivery on a mark is stored first;
a message whose marks already reach `attempts - 1` killed whoever began it, and is given up unread.

The marks live in a key-value bucket: key = stream, consumer, sequence and stream time; value = the count.
"""

from __future__ import annotations

from router.delivery.api import JetStream
from router.delivery.connection import Connection, head_of
from router.delivery.evidence import Evidence, NotStored
from router.errors import BrokerUnavailable
from router.ids import key
from router.message import Effect, Message


class Starts:
    """The marks of one bucket."""

    def __init__(self, jetstream: JetStream, evidence: Evidence, bucket: str) -> None:
        self._jetstream = jetstream
        self._evidence = evidence
        self._stream = f"KV_{bucket}"
        self._prefix = f"$KV.{bucket}."

    async def marks(self, message: Message) -> int:
        """How many starts were written down for this message; raises BrokerUnavailable."""
        stored = await self._jetstream.last_on(self._stream, self._subject(message))
        return int(stored.data[:_DIGITS]) if stored is not None and stored.data.isdigit() else 0

    async def mark(self, message: Message, count: int) -> None:
        """Write down a start and wait for its receipt; raises BrokerUnavailable."""
        subject = self._subject(message)
        receipt = await self._evidence.stored([Effect(subject, b"%d" % count, f"{subject}:{message.deliveries}:{count}")])
        if isinstance(receipt, NotStored):
            raise BrokerUnavailable(f"a start cannot be written down: {receipt.cause}")

    def take_back(self, connection: Connection, message: Message) -> None:
        """This start is not to count: the marks become what they were before it."""
        connection.post(self._subject(message), b"%d" % max(0, message.starts - 2))

    def forget(self, connection: Connection, message: Message) -> None:
        """The message is settled for good; a forgotten mark that survives expires with the bucket's TTL."""
        connection.post(self._subject(message), b"", "", _PURGE)

    def _subject(self, message: Message) -> str:
        return self._prefix + key(message.stream, message.consumer, str(message.sequence), str(message.stored_ns))


_DIGITS = 9  # whatever stands there: more starts than anything may have
_PURGE = head_of({"KV-Operation": "PURGE", "Nats-Rollup": "sub"})
