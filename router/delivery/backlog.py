"""How long a message that is stored now waits until its consumer gets to it: what is pending, at the rate of late.

The rate is taken while something is pending: an idle consumer shows nothing of what it can do. No clock of another machine is asked:
the pending count comes with each delivery, and so does the count of deliveries to all instances.
"""

from __future__ import annotations

from math import exp

MEMORY_S = 0.5  # the rate is an average that forgets this fast


class BacklogEstimate:
    """Looked at some fifty times a second. All times are steady seconds."""

    def __init__(self) -> None:
        self._count = 0.0  # deliveries of late, and
        self._seconds = 0.0  # in how many seconds with something pending
        self._taken = 0
        self._at: float | None = None

    @property
    def rate(self) -> float:
        """Deliveries a second."""
        return self._count / self._seconds if self._seconds else 0.0

    def wait_s(self, pending: int, taken: int, now: float) -> float:
        """Seconds until the consumer gets to the newest message. `taken`: deliveries so far, to all instances."""
        if self._at is None or taken < self._taken:  # the first look, or the consumer has started again
            self._at, self._taken = now, taken
            return 0.0
        passed = now - self._at
        if pending and passed > 0:
            keep = exp(-passed / MEMORY_S)
            self._count = keep * self._count + (taken - self._taken)
            self._seconds = keep * self._seconds + passed
        self._at, self._taken = now, taken
        return pending / max(self.rate, 1.0)
