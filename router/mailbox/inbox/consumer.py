"""InboxConsumer: from a delivery to a handler that is told an event once its receipt is committed (SDS-047 §11).

    handle --> read --> [pile] --> receive many, one commit --> processed before: acknowledged, "Duplicate detected"
                  \\                                       \\-> to be processed: begun by its treatment
                   \\-> never an event: dead
The receipt is a status, not a verdict: a row that is there and not processed was begun by somebody who died, and is begun
again (DURABILITY §1). `handle` is a lane's handler (delivery owns pulling, signals in progress, stamps and drains); `run`
is the work behind it. Two copies of one message are never in a handler of this process together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from router.contracts.codec import MAX_DEPTH, MAX_PAYLOAD_BYTES
from router.crashpoints import crashpoint
from router.deferred import Deferred
from router.mailbox.errors import DatabaseRefused, DatabaseUnavailable
from router.mailbox.inbox.adapter import PostgresInboxAdapter
from router.mailbox.inbox.event import read_event
from router.mailbox.inbox.handling import Arrival, Away, Treatment
from router.mailbox.inbox.pile import Pile
from router.mailbox.postgres import Database
from router.message import Message
from router.outcome import Dead, Done, Fault, Outcome

AT_ONCE = 500


class InboxMeter(Protocol):
    """Who counts what comes in; called on the loop, so it must be quick."""

    def duplicate(self, message: Message) -> None:
        """It was processed before."""


class InboxConsumer:
    """The inbox of one durable."""

    def __init__(
        self,
        database: Database,
        treatment: Treatment,
        meter: InboxMeter,
        *,
        max_bytes: int = MAX_PAYLOAD_BYTES,
        max_depth: int = MAX_DEPTH,
    ) -> None:
        self._database = database
        self._treatment = treatment
        self._meter = meter
        self._max_bytes = max_bytes
        self._max_depth = max_depth
        self._pile: Pile[Arrival] = Pile()
        self._copies: dict[str, deque[Arrival]] = {}  # by message id: in hand; its further copies wait for the first one's end

    def handle(self, message: Message) -> Outcome | Deferred[Outcome]:
        """CMD-051 (SD-15); called by delivery with one message at a time."""
        event = read_event(message, self._max_bytes, self._max_depth)
        if isinstance(event, Fault):
            return Dead(event)
        arrival = Arrival(message, event, Deferred())
        self._take(arrival)
        return arrival.later

    async def run(self) -> None:
        """Until cancelled. Raises nothing on purpose: a database that is away pauses the lane."""
        while True:
            arrivals = await self._pile.take(AT_ONCE, self._treatment.linger_s)
            await self._receive([arrival for arrival in arrivals if not arrival.later.is_resolved])

    def _take(self, arrival: Arrival) -> None:
        message_id = arrival.event.message_id
        if (copies := self._copies.get(message_id)) is not None:
            copies.append(arrival)
            return
        self._copies[message_id] = deque()
        arrival.later.add_callback(lambda _: self._ended(message_id))
        self._pile.add(arrival)

    def _ended(self, message_id: str) -> None:
        for copy in self._copies.pop(message_id):
            if not copy.later.is_resolved:
                self._take(copy)

    async def _receive(self, arrivals: Sequence[Arrival]) -> None:
        if (away := self._treatment.away) is None:
            try:
                attempts = await self._receipts(arrivals)
            except (DatabaseUnavailable, DatabaseRefused) as exc:
                away = Away(str(exc))
        if away is not None:
            for arrival in arrivals:
                arrival.later.resolve(away)
            return
        crashpoint("inbox_received")
        begun = [arrival for arrival in arrivals if self._is_new(arrival, attempts.get(arrival.event.message_id))]
        self._treatment.begin(begun)

    async def _receipts(self, arrivals: Sequence[Arrival]) -> dict[str, int]:
        async with self._database.transaction() as session:
            return await PostgresInboxAdapter(session).receive([(a.event.message_id, a.event.subject) for a in arrivals])

    def _is_new(self, arrival: Arrival, attempts: int | None) -> bool:
        if attempts is not None:
            arrival.attempts = attempts
            return True
        self._meter.duplicate(arrival.message)
        arrival.later.resolve(Done())
        return False
