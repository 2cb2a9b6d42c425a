"""InboxConsumer: commits the row of a delivery, then gives the event to a handler
(docs/reference/requirements.md#sd-15).

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

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from router.contracts.codec import MAX_DEPTH, MAX_PAYLOAD_BYTES
from router.core.coalescer import Coalescer
from router.core.crashpoints import crashpoint
from router.core.deferred import Deferred, HoldableDeferred
from router.core.message import Message
from router.core.outcome import Dead, Done, Fault, Outcome
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
