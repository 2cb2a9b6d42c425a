"""Counts the requests of one endpoint, for `$SRV.STATS`.

nats.micro counts while its own callback runs. Ours returns at once, because a task answers the request: so the server counts
itself, and replaces the numbers of nats.micro when they are read.
"""

from __future__ import annotations

from typing import Protocol


class MicroStats(Protocol):
    """What nats.micro publishes of an endpoint; times are nanoseconds."""

    name: str
    num_requests: int
    num_errors: int
    processing_time: int
    average_processing_time: int
    last_error: str | None


class EndpointStats:
    """The requests, errors and times of one endpoint."""

    def __init__(self) -> None:
        self._requests = 0
        self._errors = 0
        self._nanos = 0
        self._last_error: str | None = None

    def count_answer(self, nanos: int, error: str | None) -> None:
        """`error`: a code, never a text, which may quote the request."""
        self._requests += 1
        self._nanos += nanos
        if error is not None:
            self._errors += 1
            self._last_error = error

    def fill(self, stats: MicroStats) -> None:
        stats.num_requests = self._requests
        stats.num_errors = self._errors
        stats.processing_time = self._nanos
        stats.average_processing_time = self._nanos // self._requests if self._requests else 0
        stats.last_error = self._last_error
