"""The thresholds that open a breaker and close it, and how long it stays open."""

from __future__ import annotations

from msgspec import Struct


class BreakerRules(Struct, frozen=True, kw_only=True):
    """The defaults are an extension's (docs/extensions.md#extension-breaker); a provider's come from a policy.

    Rule: docs/policies.md#circuit-breaker.
    """

    failure_threshold: int = 5  # failures in a row that open it
    success_threshold: int = 2  # successful probes that close it
    timeout_s: float = 60.0  # from the opening to the first probe
    half_open_max_calls: int = 3  # probes at once
    error_rate_threshold: float = 0.5  # this share of failures opens it as well,
    error_rate_window_s: float = 60.0  # counted over this span,
    minimum_calls: int = 10  # of at least so many calls
    latency_threshold_ms: float | None = None  # a slower success is a failure
