"""Estimate how long a message that is stored now waits for its consumer: pending messages divided by the recent rate of deliveries.

The rate is measured only while messages are pending, because an idle consumer does not show its speed. Both counts come with each
delivery, so no other machine's clock is used.
"""

from __future__ import annotations

from math import exp

MEMORY_S = 0.5  # time constant of the moving average


class BacklogEstimate:
    """`wait_s` is called some fifty times a second. All times are steady seconds."""

    def __init__(self) -> None:
        self._count = 0.0  # recent deliveries
        self._seconds = 0.0  # the time that they took, with messages pending
        self._taken = 0
        self._at: float | None = None

    @property
    def rate(self) -> float:
        """Deliveries a second."""
        return self._count / self._seconds if self._seconds else 0.0

    def wait_s(self, pending: int, taken: int, now: float) -> float:
        """Seconds until the consumer gets to the newest message. `taken`: deliveries so far, to all instances."""
        if self._at is None or taken < self._taken:  # the first call, or the consumer was re-created
            self._at, self._taken = now, taken
            return 0.0
        passed = now - self._at
        if pending and passed > 0:
            keep = exp(-passed / MEMORY_S)
            self._count = keep * self._count + (taken - self._taken)
            self._seconds = keep * self._seconds + passed
        self._at, self._taken = now, taken
        return pending / max(self.rate, 1.0)
