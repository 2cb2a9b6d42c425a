"""Turns the settings of the router into those of the bus."""

from __future__ import annotations

from router.bus.settings import BusSettings
from router.config import Settings


def build_bus_settings(settings: Settings) -> BusSettings:
    """The bus's own settings, and those that it shares with the router: limits, attempt records,
    the limits of dead letters.
    """
    bus, letters, attempts = settings.bus, settings.streams.dlq, settings.buckets.attempts
    return BusSettings(
        stream_prefix=bus.stream_prefix,
        consumer_prefix=bus.consumer_prefix,
        message_ttl=float(bus.message_ttl_secs),
        max_msgs_per_subject=bus.max_msgs_per_subject,
        duplicate_window=float(bus.duplicate_window_secs),
        replicas=settings.streams.dlq.replicas,
        max_payload_bytes=settings.max_payload_bytes,
        max_depth=settings.max_depth,
        letters_ttl=letters.max_age_ms / 1000,
        letters_window=letters.duplicate_window_ms / 1000,
        letters_max_bytes=letters.max_bytes,
        attempts_bucket=attempts.name,
        attempts_ttl=attempts.ttl_ms / 1000,
        attempts_replicas=attempts.replicas,
        node_id=settings.node_id,
        is_making=settings.topology == "create",
    )
