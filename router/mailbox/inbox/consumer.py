"""InboxConsumer: commits the row of a delivery, then gives the event to a handler
(docs/reference/requirements.md#sd-15). And the port of a consumer as the specification words it.

    handle --> read --> [queue] --> receive many, one commit --> processed before: acknowledged,
    "Duplicate detected"
                  \\                                        \\-> not processed: its strategy starts it
                   \\-> not an event: dead
The row is a status, not a result: a row that is not processed was begun by a process that died, so
this one begins it again (docs/explanation/durability.md#inbox). `handle` is the handler of a
consumer (delivery pulls, signals progress, acks and drains); `run` does the work behind it.
Handlers of this process never work on two copies of one message at the same time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from secrets import randbelow
from typing import Protocol

import nats.errors
import orjson

from router.contracts.codec import MAX_DEPTH, MAX_PAYLOAD_BYTES
from router.core.coalescer import Coalescer
from router.core.crashpoints import crashpoint
from router.core.deferred import Deferred, HoldableDeferred
from router.core.errors import BrokerUnavailable
from router.core.message import NO_HEADERS, Message, parse_ack_subject
from router.core.outcome import Dead, Done, Fault, Outcome
from router.delivery.consume.pull import OF_BYTES, SPREAD_BYTES
from router.delivery.consume.settlement import nak
from router.delivery.consume.stream_reader import MAX_BATCH_BYTES
from router.delivery.consume.subscription import ACK
from router.delivery.wire.api import JetStream
from router.delivery.wire.frames import Headers
from router.mailbox.errors import DatabaseRefused, DatabaseUnavailable
from router.mailbox.inbox.adapter import PostgresInboxAdapter
from router.mailbox.inbox.event import read_event
from router.mailbox.inbox.handling import HandlerStrategy, InboxDelivery, InboxUnavailable
from router.mailbox.postgres import Database

MAX_ROWS_PER_COMMIT = 500


class InboxMeter(Protocol):
    """Counts what arrives. Called on the event loop, so it must be quick."""

    def on_duplicate(self, message: Message) -> None:
        """The message was processed before."""


class InboxConsumer:
    """The inbox of one durable."""

    def __init__(
        self,
        database: Database,
        strategy: HandlerStrategy,
        meter: InboxMeter,
        *,
        max_bytes: int = MAX_PAYLOAD_BYTES,
        max_depth: int = MAX_DEPTH,
    ) -> None:
        self._database = database
        self._strategy = strategy
        self._meter = meter
        self._max_bytes = max_bytes
        self._max_depth = max_depth
        self._queue: Coalescer[InboxDelivery] = Coalescer()
        # in flight, by message id: further copies wait until the first one ends
        self._copies: dict[str, deque[InboxDelivery]] = {}

    def handle(self, message: Message) -> Outcome | Deferred[Outcome]:
        """CMD-051 (docs/reference/requirements.md#cmd-051); delivery calls it with one message at a
        time.
        """
        return self._begin(message, may_be_held=True)

    def rescue(self, message: Message) -> Outcome | Deferred[Outcome]:
        """The same for a message that the server delivers no more. If its service does not serve
        it, the outcome is a Hold.
        """
        return self._begin(message, may_be_held=False)

    def is_in_hand(self, message_id: str) -> bool:
        """Whether this process works on the message: its row counts an attempt that has no end yet."""
        return message_id in self._copies

    async def run(self) -> None:
        """Run until cancelled. Raises nothing on purpose: an unavailable database pauses the
        consumer.
        """
        while True:
            deliveries = await self._queue.take(MAX_ROWS_PER_COMMIT, self._strategy.linger_s)
            await self._receive(
                [delivery for delivery in deliveries if not delivery.later.is_resolved]
            )

    def _begin(self, message: Message, *, may_be_held: bool) -> Outcome | Deferred[Outcome]:
        event = read_event(message, self._max_bytes, self._max_depth)
        if isinstance(event, Fault):
            return Dead(event)
        delivery = InboxDelivery(message, event, HoldableDeferred(), may_be_held)
        self._enqueue(delivery)
        return delivery.later

    def _enqueue(self, delivery: InboxDelivery) -> None:
        message_id = delivery.event.message_id
        if (copies := self._copies.get(message_id)) is not None:
            copies.append(delivery)
            return
        self._copies[message_id] = deque()
        delivery.later.add_callback(lambda _: self._on_concluded(message_id))
        self._queue.add(delivery)

    def _on_concluded(self, message_id: str) -> None:
        for copy in self._copies.pop(message_id):
            if not copy.later.is_resolved:
                self._enqueue(copy)

    async def _receive(self, deliveries: Sequence[InboxDelivery]) -> None:
        if (unavailable := self._strategy.unavailable) is None:
            try:
                attempts = await self._insert_rows(deliveries)
            except (DatabaseUnavailable, DatabaseRefused) as exc:
                unavailable = InboxUnavailable(str(exc))
        if unavailable is not None:
            for delivery in deliveries:
                delivery.later.resolve(unavailable)
            return
        crashpoint("inbox_received")
        begun = [
            delivery
            for delivery in deliveries
            if self._is_new(delivery, attempts.get(delivery.event.message_id))
        ]
        self._strategy.start(begun)

    async def _insert_rows(self, deliveries: Sequence[InboxDelivery]) -> dict[str, int]:
        async with self._database.transaction() as session:
            return await PostgresInboxAdapter(session).receive(
                [(a.event.message_id, a.event.subject) for a in deliveries]
            )

    def _is_new(self, delivery: InboxDelivery, attempts: int | None) -> bool:
        if attempts is not None:
            delivery.attempts = attempts
            return True
        if delivery.may_be_held:  # the recovery counts its own
            self._meter.on_duplicate(delivery.message)
        delivery.later.resolve(Done())
        return False


# -- PORT-047-004 as the specification words it: fetch messages, ack one, NAK one
# (docs/reference/requirements.md#sd-24).
#
# For programs with a loop of their own. The inbox itself uses `delivery.consume.consumer`, which
# pulls ahead, keeps messages in flight alive, counts attempts and drains. An `ack` here costs a
# round trip, and the server confirms it.


ACK_TIMEOUT_S = 5.0
NO_MORE = ("404", "408")
NOT_THERE = "it is not there, or JetStream is not"  # no responders: the server gives no words
AT_ONCE_S = 0.01  # the server's floor for a NAK that asks for no delay


class NatsJetStreamConsumer:
    """Works on an existing durable. `wait_s`: how long a fetch waits for the first message."""

    def __init__(
        self, jetstream: JetStream, stream: str, durable: str, wait_s: float = 1.0
    ) -> None:
        self._connection = jetstream.connection
        self._next = f"{jetstream.prefix}.CONSUMER.MSG.NEXT.{stream}.{durable}"
        self._name = f"the durable {durable} of {stream}"
        self._wait_s = wait_s

    async def fetch(self, batch: int) -> Sequence[Message]:
        """Return at most `batch` messages; none if none came in time. Raises BrokerUnavailable,
        also where the durable is not there.
        """
        fetched: list[Message] = []
        status: Mapping[str, str] = NO_HEADERS
        ended = asyncio.Event()
        inbox = self._connection.new_inbox()

        def hear(subject: str, ack_subject: str, data: bytes, headers: Headers | None) -> None:
            nonlocal status
            if subject == inbox:
                status = headers or NO_HEADERS
            else:
                fetched.append(_message(subject, ack_subject, data, headers))
            if subject == inbox or len(fetched) == batch:
                ended.set()

        sid = await self._connection.subscribe_direct(inbox, hear)
        try:
            most = max(MAX_BATCH_BYTES, 2 * self._connection.max_payload) + randbelow(SPREAD_BYTES)
            request = {"batch": batch, "max_bytes": most, "expires": int(self._wait_s * 1e9)}
            self._connection.publish_nowait(self._next, orjson.dumps(request), inbox)
            async with asyncio.timeout(self._wait_s + ACK_TIMEOUT_S):
                await ended.wait()
        except TimeoutError as exc:
            raise BrokerUnavailable("the server answers no pull request") from exc
        finally:
            await self._connection.unsubscribe(sid)
        if not fetched and not _is_end(status):
            raise BrokerUnavailable(
                f"no messages of {self._name}: {status.get('Status')} "
                f"{status.get('Description', NOT_THERE)}"
            )
        return fetched

    async def ack(self, msg: Message) -> None:
        """Returns when the server has confirmed it. Raises BrokerUnavailable."""
        try:
            await self._connection.request(msg.ack_subject, ACK, timeout=ACK_TIMEOUT_S)
        except (nats.errors.Error, OSError) as exc:
            raise BrokerUnavailable(
                f"an acknowledgement was not confirmed: {type(exc).__name__}"
            ) from exc

    async def nak(self, msg: Message) -> None:
        self._connection.publish_nowait(msg.ack_subject, nak(AT_ONCE_S))


def _is_end(status: Mapping[str, str]) -> bool:
    """Whether a pull request ended as it should. Any other end has a cause that waiting alone may
    not mend.
    """
    return status.get("Status") in NO_MORE or status.get("Description") in OF_BYTES


def _message(subject: str, ack_subject: str, data: bytes, headers: Headers | None) -> Message:
    at = parse_ack_subject(ack_subject)
    return Message(
        subject,
        data,
        headers or NO_HEADERS,
        at.stream,
        at.consumer,
        at.sequence,
        at.stored_ns,
        at.deliveries,
        ack_subject,
    )
