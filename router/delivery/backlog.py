"""How long a message that is stored now waits until its consumer gets to it: what is pending, at the rate of the last half second.

No clock of another machine is asked: the pending count comes with each delivery, the rate is this process's own.
"""

from __future__ import annotations

from math import exp

MEMORY_S = 0.5  # the rate is an average that forgets this fast


class Backlog:
    """Looked at some twenty times a second. All times are steady seconds."""

    def __init__(self) -> None:
        self.rate = 0.0  # deliveries a second
        self._taken = 0
        self._at: float | None = None

    def wait_s(self, pending: int, taken: int, now: float) -> float:
        """Seconds until the consumer gets to the newest message. `taken`: deliveries since it started."""
        if self._at is None or taken < self._taken:  # the first look, or the consumer has started again
            self._at, self._taken = now, taken
            return 0.0
        passed = now - self._at
        if passed > 0:
            keep = exp(-passed / MEMORY_S)
            self.rate = keep * self.rate + (1 - keep) * (taken - self._taken) / passed
            self._at, self._taken = now, taken
        return pending / max(self.rate, 1.0)
