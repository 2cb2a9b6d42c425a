"""The HTTP service that handles the events of an inbox, as the settings name it, behind a circuit breaker."""

from __future__ import annotations

from router.config import Settings
from router.core.breakers import BreakerRules, CallPermit, CircuitBreaker
from router.core.clock import steady
from router.core.errors import Misconfigured
from router.mailbox.inbox.handling import HandlerPermit
from router.mailbox.inbox.http_handler import HttpEventHandler, HttpRules
from router.mailbox.inbox_settings import HandlerConfig


def service_of(settings: Settings) -> HttpEventHandler:
    """The service at `inbox.handler.url`. Raises Misconfigured when none is named."""
    handler = settings.inbox.handler
    if handler.url is None:
        raise Misconfigured("inbox.handler.url", "say where the service is, like http://127.0.0.1:8000/handle, or give MODULE:FUNCTION")
    breaker = CircuitBreaker("inbox.handler", _breaker_rules(handler))
    rules = HttpRules(
        url=handler.url,
        timeout_s=handler.timeout_ms / 1000,
        max_payload_bytes=settings.max_payload_bytes,
        max_depth=settings.max_depth,
    )
    return HttpEventHandler(rules, HandlerBreaker(breaker))


def _breaker_rules(handler: HandlerConfig) -> BreakerRules:
    return BreakerRules(
        failure_threshold=handler.failures,
        timeout_s=handler.rest_ms / 1000,
        error_rate_threshold=handler.error_rate_threshold,
        error_rate_window_s=handler.error_rate_window_ms / 1000,
        minimum_calls=handler.minimum_calls,
    )


class HandlerBreaker:
    """`mailbox.inbox.handling.RemoteBreaker` over a circuit breaker."""

    def __init__(self, breaker: CircuitBreaker) -> None:
        self._breaker = breaker

    @property
    def is_open(self) -> bool:
        return self._breaker.block_end() > steady()

    def acquire(self, seconds: float) -> HandlerPermit | None:
        permit = self._breaker.acquire(seconds)
        return _Permit(self._breaker, permit) if permit is not None else None


class _Permit:
    def __init__(self, breaker: CircuitBreaker, permit: CallPermit) -> None:
        self._breaker = breaker
        self._permit = permit

    def record_success(self, latency_ms: float) -> None:
        self._breaker.record_success(self._permit, latency_ms)

    def record_failure(self) -> None:
        self._breaker.record_failure(self._permit)

    def release(self) -> None:
        self._breaker.release(self._permit)
