"""Time as a port: code that decides by time gets a `Clock`, so that a test can stop it."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]

wall: Clock = time.time  # seconds since the epoch: for stored times
steady: Clock = time.monotonic  # seconds since an arbitrary start: for durations


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
