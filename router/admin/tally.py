"""What one endpoint did, for `$SRV.STATS`.

nats.micro counts while its own callback runs, and ours returns at once: the work is a task's. So we count, and put
our figures in place of its own when it is asked.
"""

from __future__ import annotations

from typing import Protocol


class Stats(Protocol):
    """What nats.micro shows of an endpoint; times are nanoseconds."""

    name: str
    num_requests: int
    num_errors: int
    processing_time: int
    average_processing_time: int
    last_error: str | None


class Tally:
    """One endpoint's figures."""

    def __init__(self) -> None:
        self._requests = 0
        self._errors = 0
        self._nanos = 0
        self._last_error: str | None = None

    def answered(self, nanos: int, error: str | None) -> None:
        """`error` is a code, never a text that may hold what was asked."""
        self._requests += 1
        self._nanos += nanos
        if error is not None:
            self._errors += 1
            self._last_error = error

    def show(self, stats: Stats) -> None:
        stats.num_requests = self._requests
        stats.num_errors = self._errors
        stats.processing_time = self._nanos
        stats.average_processing_time = self._nanos // self._requests if self._requests else 0
        stats.last_error = self._last_error
