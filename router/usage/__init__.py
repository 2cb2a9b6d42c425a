"""Metering: one outcome of a worker becomes one usage event. Pure."""

from router.usage.metering import metered, usage_effect

__all__ = ["metered", "usage_effect"]
