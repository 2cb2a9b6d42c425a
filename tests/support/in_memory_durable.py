"""A durable in memory, on virtual time: what a server would deliver next, and when."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping

from msgspec.structs import replace

from router.core.message import Message

_EPOCH_NS = 1_700_000_000_000_000_000


class InMemoryDurable:
    """Messages of one stream for one consumer. `now`: seconds, which pass only when nothing else is
    due.
    """

    def __init__(self, stream: str, durable: str) -> None:
        self.now = 0.0
        self._stream = stream
        self._durable = durable
        self._messages: list[Message] = []  # by sequence - 1, as they were delivered last
        self._new: deque[int] = deque()
        self._again: list[tuple[float, int, int]] = []  # when it is due, its turn, its sequence
        self._turns = 0

    def publish(self, subject: str, data: bytes, headers: Mapping[str, str]) -> int:
        """Store a message; returns its sequence."""
        sequence = len(self._messages) + 1
        stored_ns = _EPOCH_NS + int(self.now * 1e9)
        self._messages.append(
            Message(
                subject,
                data,
                headers,
                self._stream,
                self._durable,
                sequence,
                stored_ns,
                0,
                str(sequence),
            )
        )
        self._new.append(sequence)
        return sequence

    def deliver_again(self, message: Message, after_s: float) -> None:
        """A NAK with a delay, or an ack wait that ran out."""
        self._turns += 1
        heapq.heappush(self._again, (self.now + after_s, self._turns, message.sequence))

    def deliver(self) -> Message | None:
        """What is due again, else what is new, else (the clock jumps) what is due next; None:
        nothing is left.
        """
        if self._new and not (self._again and self._again[0][0] <= self.now):
            sequence = self._new.popleft()
        elif self._again:
            due, _, sequence = heapq.heappop(self._again)
            self.now = max(self.now, due)
        else:
            return None
        last = self._messages[sequence - 1]
        self._messages[sequence - 1] = replace(last, deliveries=last.deliveries + 1)
        return self._messages[sequence - 1]
