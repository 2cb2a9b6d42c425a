"""When an extension's circuit breaker opens and closes. A provider's goes by the policies that name the provider."""

from __future__ import annotations

from pydantic import Field

from router.config.group import Count, Group, Millis


class ExtensionBreakerConfig(Group):
    """One breaker for each extension, kept by each instance for itself (docs/extensions.md#extension-breaker)."""

    failure_threshold: Count = Field(default=5, description="failures in a row that open it")
    success_threshold: Count = Field(default=2, description="successful probes that close it")
    timeout_ms: Millis = Field(default=60_000, description="from the opening to the first probe, milliseconds")
    half_open_max_calls: Count = Field(default=3, description="probes at once")
    error_rate_threshold: float = Field(default=0.5, gt=0, le=1, description="this share of failures opens it as well")
    error_rate_window_ms: Millis = Field(default=60_000, description="the share is counted over this span, milliseconds")
    minimum_calls: Count = Field(default=10, description="the share counts from so many calls on")
