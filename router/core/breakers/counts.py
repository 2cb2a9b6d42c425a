"""What a breaker counts: the error rate of the last calls, and the probes in flight while it is
half open.

The error rate is that of a sliding window in a bounded number of slices. A slice begins with the
first call after the slice before it is full, and is dropped as a whole when its beginning is older
than the window. So a call counts for at least 19/20 of the window, and never for longer than the
window. Each probe has an expiry, so that a caller that never reports an outcome does not block a
place.
"""

from __future__ import annotations

from collections import deque

SLICES = 20


class Window:
    """Calls and failures of the last `span_s` seconds. `now` is on one steady clock."""

    def __init__(self, span_s: float) -> None:
        self._span_s = span_s
        self._slices: deque[list[float]] = deque()  # [begin, calls, failures]
        self._ends = float("-inf")  # of the newest slice
        self.calls = 0
        self.failures = 0

    def note(self, now: float, *, failed: bool) -> None:
        """One call that ended now."""
        if now >= self._ends:
            self.forget(now)
            self._slices.append([now, 0, 0])
            self._ends = now + self._span_s / SLICES
        newest = self._slices[-1]
        newest[1] += 1
        self.calls += 1
        if failed:
            newest[2] += 1
            self.failures += 1

    def forget(self, now: float) -> None:
        """Drop what is older than the window."""
        while self._slices and self._slices[0][0] + self._span_s <= now:
            _, calls, failures = self._slices.popleft()
            self.calls -= int(calls)
            self.failures -= int(failures)

    def rate(self, now: float) -> float:
        """The share of failures, 0 without calls."""
        self.forget(now)
        return self.failures / self.calls if self.calls else 0.0


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
