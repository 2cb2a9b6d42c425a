"""The probes in flight, each with an expiry, so that a caller that never reports an outcome does not block a place."""

from __future__ import annotations


class Probes:
    """Probes by number, from 1. `now` is on one steady clock."""

    def __init__(self) -> None:
        self._ends: dict[int, float] = {}  # the oldest first
        self._last = 0

    def begin(self, until: float) -> int:
        self._last += 1
        self._ends[self._last] = until
        return self._last

    def end(self, number: int, now: float) -> bool:
        """Whether the probe was still in flight."""
        ends = self._ends.pop(number, None)
        return ends is not None and ends > now

    def find_oldest(self, now: float) -> int | None:
        self._forget(now)
        return next(iter(self._ends), None)

    def free_at(self, now: float, limit: int) -> float:
        """When one more probe may begin; 0: at once."""
        self._forget(now)
        return 0.0 if len(self._ends) < limit else min(self._ends.values())

    def end_all(self) -> None:
        self._ends.clear()

    def _forget(self, now: float) -> None:
        for number in [number for number, ends in self._ends.items() if ends <= now]:
            del self._ends[number]
