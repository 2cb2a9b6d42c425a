"""At most one line in a span of time for each key, in bounded memory: what a stranger can cause must not flood a log."""

from __future__ import annotations

from collections.abc import Hashable

from router.clock import Clock, steady

_OVERFLOW = object()


class Once:
    """`if once.allows((subject, header, rule)): log.warning(…)`.

    `every_s`: seconds between two lines of one key. Above `limit` keys at a time the new ones share a single line.
    """

    def __init__(self, every_s: float = 1.0, limit: int = 1000, clock: Clock = steady) -> None:
        self._every_s = every_s
        self._limit = limit
        self._clock = clock
        self._until: dict[Hashable, float] = {}  # oldest first: a key is put at the end whenever it is allowed

    def allows(self, key: Hashable) -> bool:
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
