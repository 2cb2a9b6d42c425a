"""Metering: one outcome of a worker becomes one usage event. Pure."""

from router.usage.metering import make_usage_effect, make_usage_event

__all__ = ["make_usage_effect", "make_usage_event"]
