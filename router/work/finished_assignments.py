"""Removes finished assignments from their stream: which ones, after how long, and what is counted
and logged.
"""

from __future__ import annotations

from router.config import Settings
from router.core.errors import RouterError
from router.delivery.consume.finished import FinishedRemoval
from router.delivery.wire.api import JetStream
from router.delivery.wire.shared_info import SharedInfo
from router.process.observability import LogRateLimit, Metrics, events, logs

log = logs.logger(__name__)


def build_finished_removal(
    settings: Settings, jetstream: JetStream, metrics: Metrics, infos: SharedInfo | None = None
) -> FinishedRemoval:
    """The removal, run by a child every `settings.assignment.removal_every_ms`; records stay in the
    bucket.
    """
    seldom = LogRateLimit(every_s=60.0)

    def count(removed: int) -> None:
        metrics.assignments_removed.value += removed

    def tell(exc: RouterError) -> None:
        if seldom.allow("kept"):
            log.warning(
                events.ASSIGNMENTS_KEPT, stream=settings.streams.assignments.name, cause=str(exc)
            )

    return FinishedRemoval(
        jetstream,
        settings.streams.assignments,
        settings.assignment.subjects,
        settings.assignment.removal_every_ms / 1000,
        on_removed=count,
        on_failure=tell,
        infos=infos,
    )
