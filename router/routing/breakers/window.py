"""The error rate of the last calls: a sliding window in a bounded number of slices.

A slice begins with the first call after the slice before it is full, and is dropped as a whole when its beginning is older
than the window. So a call counts for at least 19/20 of the window, and never for longer than the window.
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
