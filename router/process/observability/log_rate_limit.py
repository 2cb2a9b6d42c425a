"""At most one log line per interval for each key, in bounded memory: clients cannot flood the log."""

from __future__ import annotations

from collections.abc import Hashable

from router.core.clock import Clock, steady

_OVERFLOW = object()


class LogRateLimit:
    """`if rate_limit.allow((subject, header, rule)): log.warning(…)`.

    `every_s`: seconds between two lines of one key. While there are `limit` keys, all new ones
    together get one line.
    """

    def __init__(self, every_s: float = 1.0, limit: int = 1000, clock: Clock = steady) -> None:
        self._every_s = every_s
        self._limit = limit
        self._clock = clock
        # oldest first: a key moves to the end whenever it is allowed
        self._until: dict[Hashable, float] = {}

    def allow(self, key: Hashable) -> bool:
        """Whether a line of this key may be logged now; if so, the next one must wait."""
        now = self._clock()
        if key not in self._until:
            self._forget(now)
            if len(self._until) >= self._limit:
                key = _OVERFLOW
        if now < self._until.get(key, now):
            return False
        self._until.pop(key, None)
        self._until[key] = now + self._every_s
        return True

    def _forget(self, now: float) -> None:
        while self._until and self._until[oldest := next(iter(self._until))] <= now:
            del self._until[oldest]
