"""Turns the settings of the router into those of the bus."""

from __future__ import annotations

from router.bus.settings import BusSettings
from router.config import Settings


def build_bus_settings(settings: Settings) -> BusSettings:
    """The bus's own settings, and those that it shares with the router: limits, attempt records,
    the limits of dead letters.
    """
    return BusSettings(
        **dict(settings.bus),
        max_payload_bytes=settings.max_payload_bytes,
        max_depth=settings.max_depth,
        letters=settings.streams.dlq,
        attempts=settings.buckets.attempts,
        node_id=settings.node_id,
        is_making=settings.topology == "create",
    )
