"""The registry of extensions, and the breaker that each of them has."""

from __future__ import annotations

from pydantic import Field

from router.core.setting_values import Count, Environment, File, Group, Millis


class ExtensionsConfig(Group):
    """The registry's surroundings (docs/reference/extensions.md#registry)."""

    dir: File = Field(
        default=None,
        description=(
            "directory of registry entries, one JSON file each: a missing one is registered at "
            "start"
        ),
    )
    environment: Environment = Field(
        default=None,
        description="this instance's environment, for versions with rules; empty = none",
    )


class ExtensionBreakerConfig(Group):
    """One breaker for each extension, kept by each instance for itself; a provider's goes by the
    policies that name the provider.

    Rule: docs/reference/extensions.md#extension-breaker.
    """

    failure_threshold: Count = Field(default=5, description="failures in a row that open it")
    success_threshold: Count = Field(default=2, description="successful probes that close it")
    timeout_ms: Millis = Field(
        default=60_000, description="from the opening to the first probe, milliseconds"
    )
    half_open_max_calls: Count = Field(default=3, description="probes at once")
    error_rate_threshold: float = Field(
        default=0.5, gt=0, le=1, description="this share of failures opens it as well"
    )
    error_rate_window_ms: Millis = Field(
        default=60_000, description="the share is counted over this span, milliseconds"
    )
    minimum_calls: Count = Field(default=10, description="the share counts from so many calls on")
