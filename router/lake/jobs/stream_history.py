"""What an ingest has read of its stream's state, each time with a wall clock: it bounds the search for what came before.

    a batch begins at sequence N ──> the newest state whose last sequence is before N: all of the batch came after it

After that state the stream only lost old messages and got new ones: whatever it held when a message of the batch came has a sequence from
that state's first on. A newer state is too narrow for a batch that waited: the stream may have lost an identity's first message since the
second one came.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from router.lake.source.offset import StreamState


class StreamThen(Struct, frozen=True):
    """The stream's state, and a time before it was asked for (seconds since the epoch)."""

    facts: StreamState
    at: float

    @property
    def oldest_s(self) -> float | None:
        """The time since which the stream would hold its messages if nothing trimmed it; None: no age ends them."""
        return self.at - self.facts.max_age_s if self.facts.max_age_s else None


class StreamHistory:
    """The states of one ingest's stream, which begin with the one at its start."""

    def __init__(self, facts: StreamState, at: float) -> None:
        self._states = deque([StreamThen(facts, at)])

    def add(self, facts: StreamState, at: float) -> None:
        """`at`: a time before the stream was asked, seconds since the epoch."""
        self._states.append(StreamThen(facts, at))

    def find_before(self, sequence: int) -> StreamThen:
        """Return the newest state without this sequence, else the first one. The states before it are forgotten: batches go forward."""
        while len(self._states) > 1 and self._states[1].facts.last < sequence:
            self._states.popleft()
        return self._states[0]
