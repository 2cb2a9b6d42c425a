"""How long a child has said nothing while its parent was awake.

The parent asks for the status twice a second, and a child whose event loop runs answers. What the clock says is not enough: where the
machine was suspended, or the parent stood still itself, the child had no chance to be heard. So each look adds what has passed since the
last look, and no more than two regular intervals.
"""

from __future__ import annotations

from router.core.clock import Clock, steady


class SilenceCounter:
    """Of one child. `interval_s`: between two looks, if nothing holds the parent up."""

    def __init__(self, interval_s: float, clock: Clock = steady) -> None:
        self._most_s = 2 * interval_s
        self._clock = clock
        self._looked_at = clock()
        self._heard_at = self._looked_at
        self.seconds = 0.0

    def look(self, heard_at: float) -> None:
        """Call it at each interval. `heard_at`: steady seconds of the child's newest message."""
        now = self._clock()
        passed, self._looked_at = now - self._looked_at, now
        is_silent, self._heard_at = heard_at <= self._heard_at, heard_at
        self.seconds = self.seconds + min(passed, self._most_s) if is_silent else 0.0
