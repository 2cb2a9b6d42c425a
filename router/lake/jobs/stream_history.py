"""What an ingest has read of its stream's state, each time with a wall clock: it bounds the search
for what came before.

    a batch begins at sequence N ──> the newest state whose last sequence is before N: all of the batch came after it

After that state the stream only lost old messages and got new ones: whatever it held when a message
of the batch came has a sequence from that state's first on. A newer state is too narrow for a batch
that waited: the stream may have lost an identity's first message since the second one came.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from router.lake.source.offset import StreamState


class StreamReading(Struct, frozen=True):
    """The stream's state as it was read, and a time before it was asked for (seconds since the
    epoch).
    """

    facts: StreamState
    at: float

    @property
    def oldest_s(self) -> float | None:
        """The time since which the stream would hold its messages if nothing trimmed it; None: no
        age ends them.
        """
        return self.at - self.facts.max_age_s if self.facts.max_age_s else None


class StreamHistory:
    """The readings of one ingest's stream, the first of them at its start."""

    def __init__(self, facts: StreamState, at: float) -> None:
        self._readings = deque([StreamReading(facts, at)])

    def add(self, facts: StreamState, at: float) -> None:
        """`at`: a time before the stream was asked, seconds since the epoch."""
        self._readings.append(StreamReading(facts, at))

    def find_before(self, sequence: int) -> StreamReading:
        """Return the newest reading whose stream ends before this sequence, else the first one.

        Earlier ones are forgotten: batches go forward.
        """
        while len(self._readings) > 1 and self._readings[1].facts.last < sequence:
            self._readings.popleft()
        return self._readings[0]
