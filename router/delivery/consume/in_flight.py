"""The messages that a consumer has in flight: one table, the state of each, and one timer for all
in-progress signals. Large ones begin one at a time.

    delivered ──> its handler returns at once, and nothing must be stored: settled, never in the table
       ├──> QUEUED, while the consumer is paused, or it is large ┐
       ├──> COUNTING its attempt, if it is a redelivery ─────────┤ (UNEXPLAINED ones one at a time)
       │                                                         ├──> settled: its attempts are used up, see PUBLISHING
       └──> its handler is called <──────────────────────────────┘
              ├──> (WAITING_FOR_SLOT) HANDLING ──> an outcome
              └──> UNAVAILABLE, the broker is: the handler is called again
    an outcome ──> COUNTING its attempt, if a first delivery failed
       └──> PUBLISHING its effects ──> COMMITTING ──> SETTLED
              └──> UNSTORED or WAITING_FOR_ROOM: they are published again

A message without a signal for a whole ack wait is overdue: the server may have delivered it to
another process, so this one sends no NAK (docs/explanation/durability.md#redelivery).

A state is changed by `enter` and `pop` alone: `MessageProcessor` enters those before an outcome,
`Settler` those after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Protocol

from msgspec import Struct

from router.core.clock import steady
from router.core.fair_queue import FairQueue
from router.core.message import Message
from router.delivery.consume.settlement import PendingSettlement
from router.delivery.consume.subscription import IN_PROGRESS, TurnRules
from router.delivery.wire.connection import Connection

# in one ack wait: a process, a broker or a machine that stands still for most of the rest costs no
# delivery
SIGNALS_PER_ACK_WAIT = 4


class MessageState(Enum):
    """Where a message in flight is."""

    # the consumer is paused, or others of its size come first; its handler is not called
    QUEUED = "queued"
    # a redelivery that this process did not ask for; it waits for the one before it
    UNEXPLAINED = "unexplained"
    COUNTING = "counting"  # its attempt is being recorded
    WAITING_FOR_SLOT = "waiting_for_slot"  # its handler is called, and not awaited
    HANDLING = "handling"  # its handler runs
    UNAVAILABLE = "unavailable"  # its handler found the broker unavailable
    PUBLISHING = "publishing"  # its effects are published, their publish acks are not here
    UNSTORED = "unstored"  # the broker does not store its effects; the consumer is paused
    WAITING_FOR_ROOM = "waiting_for_room"  # a stream has no room for its effects
    # its effects are stored; its commit runs, or it is found out what follows from their publish
    # acks
    COMMITTING = "committing"
    SETTLED = "settled"  # acked, NAKed or handed back: it is not in the table


# Bound once: to look up an Enum's member costs 0.15 µs in Python 3.11, and these two are needed for
# each message.
PUBLISHING_STATE, SETTLED_STATE = MessageState.PUBLISHING, MessageState.SETTLED


class HandlerCall(Protocol):
    """A handler that waits: a `Deferred` or a `PooledCall`."""

    def cancel(self) -> None: ...


class InFlightMessage(Struct):
    """One message in flight. `ack_subject` is the newest delivery's; an older one settles the same
    message.
    """

    message: Message
    ack_subject: str
    signal_at: float  # steady seconds of the next in-progress signal
    state: MessageState
    call: HandlerCall | None = None  # its handler, if that waits
    pending: PendingSettlement | None = None  # its settlement, while that cannot be carried out
    # steady seconds: what its handler needs refuses until an operator mends it; 0 = it does not
    refused_since: float = 0.0
    # no signal went out for an ack wait: the server may have given it to another process
    is_overdue: bool = False


class InFlight:
    """The messages in flight, by stream position. A re-created stream counts from 1 again, so its
    time is part of the key.
    """

    def __init__(self, connection: Connection, ack_wait_s: float) -> None:
        self._connection = connection
        self.set_ack_wait(ack_wait_s)
        # the processor looks into it without a call, once a message
        self.by_position: dict[tuple[int, int], InFlightMessage] = {}
        self._now = steady

    def set_ack_wait(self, ack_wait_s: float) -> None:
        """The durable's: from the next signal of each message on."""
        self._signal_s = ack_wait_s / SIGNALS_PER_ACK_WAIT
        # a signal that is so late comes after the ack wait
        self._late_s = ack_wait_s - self._signal_s

    def __len__(self) -> int:
        return len(self.by_position)

    def __contains__(self, message: Message) -> bool:
        return (message.sequence, message.stored_ns) in self.by_position

    def __iter__(self) -> Iterator[InFlightMessage]:
        return iter(list(self.by_position.values()))

    def list_in(self, *states: MessageState) -> list[InFlightMessage]:
        """The messages in one of these states, in the order of their arrival."""
        return [held for held in self.by_position.values() if held.state in states]

    def find(self, message: Message) -> InFlightMessage | None:
        return self.by_position.get((message.sequence, message.stored_ns))

    def enter(self, message: Message, state: MessageState) -> InFlightMessage:
        """The message is in this state from now on; one that was not in the table is added."""
        key = (message.sequence, message.stored_ns)
        held = self.by_position.get(key)
        if held is None:
            held = self.by_position[key] = InFlightMessage(
                message, message.ack_subject, self._now() + self._signal_s, state
            )
        else:
            held.state = state
        return held

    def renew(self, held: InFlightMessage, ack_subject: str) -> None:
        """The server delivered it to this process again: the new ack subject settles it, and an ack
        wait begins.
        """
        held.ack_subject, held.signal_at, held.is_overdue = (
            ack_subject,
            self._now() + self._signal_s,
            False,
        )

    def is_overdue(self, message: Message) -> bool:
        """Whether another process may have it, because this one stood still: then it must not bring
        it to a third one by a NAK.
        """
        held = self.by_position.get((message.sequence, message.stored_ns))
        return held is not None and (held.is_overdue or self._now() - held.signal_at > self._late_s)

    def pop(self, message: Message) -> str:
        """The message is settled: out of the table. Returns the ack subject that settles it."""
        held = self.by_position.pop((message.sequence, message.stored_ns), None)
        if held is None:
            return message.ack_subject
        held.state = SETTLED_STATE
        return held.ack_subject

    def signal(self, next_in_s: float = 0.0) -> None:
        """Tell the server that we are still at it, for whatever is due before the next call: also
        for what waits in the prefetch.
        """
        if not self._connection.is_connected:
            return  # it would pile up in the write buffer and arrive when it says nothing any more
        now = self._now()
        until = now + next_in_s
        for held in self.by_position.values():
            if held.signal_at <= until:
                held.is_overdue = held.is_overdue or now - held.signal_at > self._late_s
                held.signal_at = now + self._signal_s
                self._connection.publish_nowait(held.ack_subject, IN_PROGRESS)


# -- Large messages begin one in a turn of the event loop, tenants in turn, and after the small ones
# that wait behind them in the socket.
#
# A handler holds the loop for as long as it reads and encodes its message: some 5 ms for 0.9 MB.
# Twenty of them in one turn would let every other tenant's request wait for a tenth of a second.
# So a large one is begun alone, when the socket holds no more than was just read, or after
# MOST_TURNS. Turns of tenants are of the time that their handlers take.


LARGE_BYTES = 64 * 1024  # such a payload costs its handler about half a millisecond
ANY_NUMBER = 1 << 40  # of messages, and of bytes
MOST_TURNS = 16  # a turn reads at most 256 KiB: so many hold four of the largest messages


class LargeMessages:
    """The queue of one consumer. What is in it is in flight too, so the consumer's prefetch bounds
    it, and it refuses none.
    """

    def __init__(
        self,
        connection: Connection,
        turns: TurnRules,
        begin: Callable[[InFlightMessage], None],
    ) -> None:
        self._connection = connection
        self._turn_of = turns.turn_of
        self._begin = begin
        self._queue: FairQueue[InFlightMessage] = FairQueue(ANY_NUMBER, ANY_NUMBER, turns.weights)
        self._turns = 0  # in which the first one has waited
        self._is_scheduled = False

    def put(self, held: InFlightMessage) -> None:
        self._queue.put(self._turn_of(held.message), held, len(held.message.data))
        if not self._is_scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._is_scheduled = True
        asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_scheduled = False
        self._turns += 1
        if self._connection.is_behind and self._turns < MOST_TURNS:
            self._schedule()
            return
        self._turns = 0
        held = self._queue.take()
        if self._queue:
            self._schedule()
        if held is not None:
            began = steady()
            self._begin(held)
            self._queue.charge(steady() - began)
            if not self._queue:
                self._queue.take()  # no tenant waits, so none has a debt
