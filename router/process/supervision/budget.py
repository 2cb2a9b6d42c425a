"""Limits restarts: a sliding window counts them, and the pauses grow with their number in it."""

from __future__ import annotations

from collections import deque

from router.core.backoff import delay_after
from router.core.clock import Clock
from router.core.errors import RouterError
from router.process.supervision.tree import Intensity

DELAYS_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0)  # by the number of restarts inside the window


class SupervisionFailed(RouterError):
    """A child ended more often than its supervisor allows; `__cause__` is its last failure."""

    code = "supervision_failed"

    def __init__(self, supervisor: str, child: str) -> None:
        super().__init__(f"{supervisor} gave up: {child} ended too often")
        self.supervisor = supervisor
        self.child = child


class RestartBudget:
    """The restarts that a supervisor may still make: each uses one up, time gives them back."""

    def __init__(self, intensity: Intensity, clock: Clock) -> None:
        self._intensity = intensity
        self._clock = clock
        self._restarts: deque[float] = deque()

    def spend(self) -> float | None:
        """Seconds to wait before this restart; None if it exceeds the limit."""
        now = self._clock()
        while self._restarts and self._restarts[0] <= now - self._intensity.seconds:
            self._restarts.popleft()
        if len(self._restarts) >= self._intensity.restarts:
            return None
        self._restarts.append(now)
        return delay_after(len(self._restarts), DELAYS_S)
