"""Gives messages back to the server, which delivers them to another process, or here again: one by
one, or all in some states.
"""

from __future__ import annotations

from router.core.message import Message
from router.delivery.consume.in_flight import InFlight, MessageState
from router.delivery.consume.redeliveries import RedeliveryTracker
from router.delivery.consume.settlement import nak
from router.delivery.wire.connection import Connection

# seconds, the server's floor: a NAK that spends nothing and hands the message to the next puller
IMMEDIATE_NAK_S = 0.01

# What a drain hands back first: no handler works on it, and its attempt is not used up.
NOT_BEGUN = (
    MessageState.QUEUED,
    MessageState.UNEXPLAINED,
    MessageState.WAITING_FOR_SLOT,
    MessageState.UNAVAILABLE,
)
# What a drain hands back along with it: nothing but time would help it.
STUCK = (MessageState.UNSTORED, MessageState.WAITING_FOR_ROOM)


class HandBack:
    """The NAKs of one subscription that no outcome asks for."""

    def __init__(
        self, connection: Connection, in_flight: InFlight, redeliveries: RedeliveryTracker
    ) -> None:
        self._connection = connection
        self._in_flight = in_flight
        self._redeliveries = redeliveries

    def refuse(self, message: Message) -> None:
        """NAK a delivery that comes during a drain: it never enters the table."""
        self._redeliveries.give_back(message)
        self._connection.publish_nowait(message.ack_subject, nak(IMMEDIATE_NAK_S))

    def send_all(self, *states: MessageState) -> None:
        """NAK every message in one of these states, and cancel what works on it."""
        for held in self._in_flight.list_in(*states):
            if held.state in NOT_BEGUN:
                self._redeliveries.give_back(held.message)
            self.send(held.message)
            if held.call is not None:
                held.call.cancel()

    def send(self, message: Message, delay_s: float = IMMEDIATE_NAK_S) -> None:
        """NAK it, unless another process may have it by now."""
        if self._in_flight.is_overdue(message):
            self._in_flight.pop(message)
        elif message in self._in_flight:
            self._connection.publish_nowait(self._in_flight.pop(message), nak(delay_s))
