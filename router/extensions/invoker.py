"""Calling extensions, joined with this process: its connection, registry, breakers, health, metrics
and log.
"""

from __future__ import annotations

from collections.abc import Callable

from router.config import Settings
from router.delivery.wire.calls.request_reply import RequestReplyClient, trace_calls
from router.delivery.wire.connection import Connection
from router.extensions.model import (
    ExtensionRegistry,
    HealthTracker,
    Invoker,
    PipelineRunner,
    PipelineSlots,
)
from router.policies.breakers import Breakers
from router.process.observability import LogRateLimit, Metrics, events, logs

log = logs.logger(__name__)


UNTIMED = frozenset({"open", "late"})  # a call that was not sent, or not awaited, has no latency


class ExtensionMetrics:
    """`extensions.model.ports.ExtensionMeter` as metrics. A failure that a policy tolerates is
    logged once a second for each extension.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._lines = LogRateLimit(every_s=1.0)

    def on_call(self, extension_id: str, kind: str, status: str, seconds: float) -> None:
        metrics = self._metrics
        label = metrics.extension[extension_id]
        metrics.extension_calls[label, kind, status] += 1
        if status not in UNTIMED:
            metrics.extension_seconds[label].observe(seconds)

    def on_tolerated(self, extension_id: str, kind: str, policy_id: str, code: str) -> None:
        if self._lines.allow((extension_id, code)):
            log.warning(
                events.EXTENSION_TOLERATED,
                extension=extension_id,
                type=kind,
                policy_id=policy_id,
                code=code,
            )


def build_extension_invoker(
    connection: Connection, breakers: Breakers, health: HealthTracker, metrics: Metrics
) -> Invoker:
    """The invoker that decisions and providers share."""
    return Invoker(
        trace_calls(RequestReplyClient(connection)),
        breakers.extensions,
        health,
        ExtensionMetrics(metrics),
    )


def build_pipeline_runner(
    settings: Settings,
    registry: ExtensionRegistry,
    invoker: Invoker,
    metrics: Metrics,
    find_place: Callable[[str], str],
) -> PipelineRunner:
    """The pipelines of decide requests."""
    decide = settings.decide
    return PipelineRunner(
        registry,
        invoker,
        slots=PipelineSlots(decide.pipeline_slots, decide.pipeline_queue, find_place=find_place),
        meter=ExtensionMetrics(metrics),
        environment=settings.extensions.environment,
    )
