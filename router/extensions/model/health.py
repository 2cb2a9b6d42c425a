"""The health of each extension: every call of the last five minutes that this instance made.

Percentiles are true ones (nearest rank over the calls themselves), so the calls are kept: the
newest 4096 of each extension. One that is called more often is judged by a shorter time. Figures
are computed when they are read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from math import ceil

from msgspec import Struct

from router.core.clock import Clock, now_ms, steady

HEALTHY, DEGRADED, UNHEALTHY = "healthy", "degraded", "unhealthy"
WINDOW_S = 300.0
MAX_CALLS_KEPT = 4096  # calls kept of one extension


class HealthFigures(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """`get_extension_health`'s line without its breaker. Times: milliseconds since the epoch; they
    outlive the window.
    """

    extension_id: str
    status: str
    success_rate: float  # 0..1; 1 without calls
    success_count: int
    failure_count: int
    avg_latency_ms: float
    p50_latency_ms: float
    p95_latency_ms: float
    p99_latency_ms: float
    latency_samples: int
    updated_at: int
    last_latency_ms: float | None = None
    last_success: int | None = None
    last_failure: int | None = None


class _RecentCalls:
    """Recent calls of one extension. `newest`: (steady seconds, succeeded, latency in ms), oldest
    first.
    """

    __slots__ = ("last_failure", "last_latency_ms", "last_success", "newest")

    def __init__(self, most: int) -> None:
        self.newest: deque[tuple[float, bool, float]] = deque(maxlen=most)
        self.last_success: int | None = None
        self.last_failure: int | None = None
        self.last_latency_ms: float | None = None


class HealthTracker:
    """Records every call. `wall_ms`: the wall clock, milliseconds."""

    def __init__(
        self,
        now: Clock = steady,
        wall_ms: Callable[[], int] = now_ms,
        *,
        most: int = MAX_CALLS_KEPT,
    ) -> None:
        self._now = now
        self._wall_ms = wall_ms
        self._most = most
        self._calls: dict[str, _RecentCalls] = {}

    def observe(self, extension_id: str, *, ok: bool, latency_ms: float) -> None:
        """Record one call. `extension_id` must be in the registry: ids that clients invent must not
        use memory.
        """
        calls = self._calls.get(extension_id)
        if calls is None:
            calls = self._calls[extension_id] = _RecentCalls(self._most)
        calls.newest.append((self._now(), ok, latency_ms))
        calls.last_latency_ms = latency_ms
        if ok:
            calls.last_success = self._wall_ms()
        else:
            calls.last_failure = self._wall_ms()

    def figures(self, extension_id: str) -> HealthFigures:
        """An extension that was never called is healthy, with `latency_samples` 0."""
        calls = self._calls.get(extension_id) or _RecentCalls(0)
        self._forget(calls)
        return _figures(extension_id, calls, self._wall_ms())

    def get_all(self) -> dict[str, HealthFigures]:
        """The figures of every extension that was called."""
        return {extension_id: self.figures(extension_id) for extension_id in self._calls}

    def p50_ms(self, extension_id: str) -> float | None:
        """The median of the window; None without calls."""
        figures = self.figures(extension_id)
        return figures.p50_latency_ms if figures.latency_samples else None

    def keep(self, extension_ids: Collection[str]) -> None:
        """Drop the calls of every other extension: it was removed from the registry."""
        self._calls = {
            extension_id: calls
            for extension_id, calls in self._calls.items()
            if extension_id in extension_ids
        }

    def _forget(self, calls: _RecentCalls) -> None:
        until = self._now() - WINDOW_S
        while calls.newest and calls.newest[0][0] <= until:
            calls.newest.popleft()


def _figures(extension_id: str, calls: _RecentCalls, wall_ms: int) -> HealthFigures:
    latencies = sorted(latency for _, _, latency in calls.newest)
    successes, count = sum(ok for _, ok, _ in calls.newest), len(latencies)
    rate = successes / count if count else 1.0
    return HealthFigures(
        extension_id=extension_id,
        status=_status(rate),
        success_rate=rate,
        success_count=successes,
        failure_count=count - successes,
        avg_latency_ms=sum(latencies) / count if count else 0.0,
        p50_latency_ms=_percentile(latencies, 0.50),
        p95_latency_ms=_percentile(latencies, 0.95),
        p99_latency_ms=_percentile(latencies, 0.99),
        latency_samples=count,
        updated_at=max(calls.last_success or 0, calls.last_failure or 0) or wall_ms,
        last_latency_ms=calls.last_latency_ms,
        last_success=calls.last_success,
        last_failure=calls.last_failure,
    )


def _status(rate: float) -> str:
    return HEALTHY if rate >= 0.95 else DEGRADED if rate >= 0.80 else UNHEALTHY


def _percentile(rising: Sequence[float], share: float) -> float:
    """Nearest rank: the least value that `share` of all are at or below."""
    return rising[ceil(share * len(rising)) - 1] if rising else 0.0
