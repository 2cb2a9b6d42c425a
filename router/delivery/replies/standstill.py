"""How long this process stood still of late, and so how long what it hears now may have waited in
the socket.

A look is due each 20 ms. A busy machine, a long handler or SIGSTOP delays it; what came meanwhile
is read afterwards, late.
"""

from __future__ import annotations

from math import inf

STANDSTILL_S = 0.05  # so long without a look, and this process stood still
COUNTS_S = 0.5  # for so long after it, what was sent meanwhile is still being read
MAX_S = 5.0


class Standstill:
    """All times are steady seconds."""

    def __init__(self) -> None:
        self._looked_at = inf
        self._lasted, self._counts_until = 0.0, -inf

    def look(self, now: float) -> None:
        """Called some fifty times a second."""
        if now - self._looked_at > STANDSTILL_S:
            self._lasted, self._counts_until = self.measure(now), now + COUNTS_S
        self._looked_at = now

    def measure(self, now: float) -> float:
        """Seconds, 0 while the looks come in time, at most MAX_S."""
        lately = self._lasted if now < self._counts_until else 0.0
        since = now - self._looked_at
        return min(max(lately, since), MAX_S) if since > STANDSTILL_S else lately
