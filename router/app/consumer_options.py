"""Turns the settings of a durable into its ConsumerOptions, its allow list and its limits."""

from __future__ import annotations

from collections.abc import Callable

from router.config import ConsumerConfig, Settings
from router.contracts.worker import WorkerMessageLimits
from router.core import ids
from router.delivery.subscription import ConsumerOptions


def build_consumer_options(config: ConsumerConfig, settings: Settings) -> ConsumerOptions:
    """The options of one durable, in seconds."""
    return ConsumerOptions(
        max_attempts=config.max_attempts,
        backoff=tuple(wait / 1000 for wait in config.backoff_ms),
        ack_wait=config.ack_wait_ms / 1000,
        prefetch=config.prefetch,
        prefetch_bytes=config.prefetch_bytes,
        max_delayed=config.max_ack_pending // 2,
        slots=config.slots,
        slots_beside_prefetch=True,
        handler_timeout=config.handler_timeout_ms / 1000,
        pull_expires=config.pull_expires_ms / 1000,
        heartbeat=config.heartbeat_ms / 1000,
        publish_timeout=settings.effects.publish_timeout_ms / 1000,
        store_retry=settings.effects.retry_ms / 1000,
        max_waiting=config.prefetch // 4,
        full_retry=settings.effects.full_retry_ms / 1000,
    )


def allow_list(settings: Settings) -> Callable[[str], bool] | None:
    """Which subjects a message may arrive on; None: all of them (docs/contracts.md#subject-allow-list)."""
    return ids.subject_matcher(settings.subject_allowlist) if settings.subject_allowlist else None


def worker_limits(settings: Settings) -> WorkerMessageLimits:
    """The limits of a message from a worker."""
    return WorkerMessageLimits(
        max_payload_bytes=settings.max_payload_bytes,
        max_depth=settings.max_depth,
        strict=settings.contract.mode == "strict",
        max_cost=settings.results.max_cost,
        max_timestamp_age_ms=settings.results.max_timestamp_age_ms,
        max_timestamp_ahead_ms=settings.results.max_timestamp_ahead_ms,
    )
