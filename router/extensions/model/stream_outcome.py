"""What becomes of one stream, as its provider's breaker, its health and the meter count it: one invocation, however long it takes.

    closed       all calls share the permit; the outcome is counted at the end
    half open    the stream is a probe: its first good piece counts as a success and ends the permit; a later failure is counted as well

If a probe lasted as long as its stream, a few long streams would keep a provider that is well again closed to all.
"""

from __future__ import annotations

from router.core.breakers import CallPermit
from router.core.breakers.registry import TenantBreaker
from router.core.clock import Clock
from router.extensions.model.entry import PROVIDER
from router.extensions.model.failure import ExtensionFailure
from router.extensions.model.health import HealthTracker
from router.extensions.model.ports import ExtensionMeter


class StreamOutcome:
    """For a stream that begins now. `permit`: acquired for it."""

    def __init__(self, breaker: TenantBreaker, permit: CallPermit, health: HealthTracker, meter: ExtensionMeter, now: Clock) -> None:
        self._breaker = breaker
        self._permit: CallPermit | None = permit
        self._health = health
        self._meter = meter
        self._now = now
        self._begun = now()

    def on_first_piece(self) -> None:
        """The provider has answered in time, and well."""
        if self._permit is not None and self._permit.probe:
            self._breaker.record_success(self._permit, (self._now() - self._begun) * 1000)
            self._permit = None

    def cancel(self) -> None:
        """The stream was cancelled: counted neither as success nor as failure."""
        if self._permit is not None:
            self._breaker.release(self._permit)

    def end(self, failure: ExtensionFailure | None, latency_ms: float) -> None:
        """The stream has ended. `failure`: None where it ended well."""
        self._meter.on_call(self._breaker.service, PROVIDER, "ok" if failure is None else failure.status, latency_ms / 1000)
        if failure is None or failure.is_callees or failure.is_answer:
            self._health.observe(self._breaker.service, ok=failure is None or failure.is_answer, latency_ms=latency_ms)
        if failure is not None and failure.is_callees:
            self._record_failure(is_tenants=failure.is_tenants)
        elif failure is not None:
            self.cancel()
        elif self._permit is not None:
            self._breaker.record_success(self._permit, latency_ms)

    def _record_failure(self, *, is_tenants: bool) -> None:
        permit = self._permit or self._breaker.permit_for_outcome(self._begun)
        if permit is not None:
            self._breaker.record_failure(permit, is_tenants=is_tenants)
