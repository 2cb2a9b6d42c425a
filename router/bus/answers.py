"""The values that a handler of the bus may return. It never acks a message itself: the key is
stored before the ack.

Rule: docs/reference/requirements.md#sr-25.

    None, or a Write      processed                      -> marked, +ACK
    Nak                   not now                        -> -NAK; at the last attempt a dead letter,
                                                         then +TERM
    Term                  never here                     -> a dead letter, then +TERM

Raising Poison is a Term, raising anything else a Nak.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from router.bus.processed import Write
from router.contracts.envelope import MessageEnvelope


class Nak(Struct, frozen=True):
    """A temporary failure. `delay`: seconds; None: 1, 2, 4, 4 … by attempt."""

    reason: str = "the handler asked for it again"
    delay: float | None = None


class Term(Struct, frozen=True):
    """A permanent failure: the message is not delivered again."""

    reason: str = "the handler refused it"


BusAnswer = Nak | Term | Write | None
BusHandler = Callable[[MessageEnvelope], BusAnswer | Awaitable[BusAnswer]]
