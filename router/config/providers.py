"""Invoking providers for others: `beamline.provider.v1.invoke` and its stream."""

from __future__ import annotations

from pydantic import Field

from router.config.group import Count, Group, Millis, Name


class ProvidersConfig(Group):
    enabled: bool = Field(default=True, description="serve beamline.provider.v1.invoke and beamline.provider.v1.invoke.stream")
    queue_group: Name = Field(default="router-provider-group", description="instances of one group share the invocations")
    at_once: Count = Field(
        default=512, description="invocations and streams in hand, a tenant at most as many as are free; more are told to ask again"
    )
    longest_ms: Millis = Field(default=600_000, description="an invocation or stream ends after this, whatever its deadline, milliseconds")
