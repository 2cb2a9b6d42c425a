"""Time as a port: whoever decides by time is handed a `Clock`, so that a test can hold it still."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]

wall: Clock = time.time  # seconds since the epoch: for what is written down
steady: Clock = time.monotonic  # seconds since some start: for what is measured


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
