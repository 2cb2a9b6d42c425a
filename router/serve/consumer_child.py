"""One consumer as a child of the supervision tree: its metrics, its readiness and its restarts."""

from __future__ import annotations

from functools import partial

from router.config import Settings
from router.core.clock import Clock, steady
from router.delivery.consume.consumer import Consumer
from router.delivery.consume.settle import Answer
from router.delivery.settings import DrainConfig
from router.operate.alerts import Alerts
from router.operate.topology.monitor import TopologyMonitor
from router.process.observability import Metrics, ReadinessCheck
from router.serve.app_context import AppContext
from router.serve.consumer_metrics import ConsumerMetrics
from router.serve.joined_subscription import JoinedSubscription, build_subscription

NOT_STARTED = ReadinessCheck(False, "not started")


class DrainDeadline:
    """The two drain deadlines (`delivery.consume.consumer.DrainDeadlines`), shared: consumers stop
    one after the other within one span.
    """

    def __init__(self, config: DrainConfig, clock: Clock = steady) -> None:
        self._soft = config.soft
        self._hard = config.hard
        self._clock = clock
        self._since: float | None = None

    @property
    def soft(self) -> float:
        return self._compute_rest(self._soft)

    @property
    def hard(self) -> float:
        return self._compute_rest(self._hard)

    def reset(self) -> None:
        """Reset the shared deadline: a consumer restarted, so the process is not shutting down."""
        self._since = None

    def _compute_rest(self, span_s: float) -> float:
        """Seconds left of a span that starts at the first call."""
        if self._since is None:
            self._since = self._clock()
        return max(0.0, self._since + span_s - self._clock())


class ConsumerChild:
    """A durable with its observer and consumer. Each start creates a new consumer; the observer
    keeps its counts.

    `label`: its name in metrics, logs and /readyz. Each partition's durable has the same name, in a
    stream of its own.
    """

    def __init__(
        self,
        joined: JoinedSubscription,
        settings: Settings,
        metrics: Metrics,
        alerts: Alerts,
        label: str = "",
    ) -> None:
        self.joined = joined
        self.settings = settings
        self.stream = joined.spec.read_stream(settings).name
        self.durable = joined.spec.read_section(settings).durable
        self.label = label or self.durable
        self.observer = ConsumerMetrics(
            metrics, alerts, self.label, settings, answers=joined.spec.is_answered
        )
        self._consumer: Consumer | None = None

    @property
    def consumer(self) -> Consumer | None:
        """None before the first start."""
        return self._consumer

    @property
    def check(self) -> ReadinessCheck:
        """Its line in /readyz."""
        if self._consumer is None:
            return NOT_STARTED
        health = self._consumer.health
        return ReadinessCheck(health.is_ready, health.detail)

    @property
    def is_taking(self) -> bool:
        """Whether its messages come to this process; also while they wait for the broker, which
        another process would meet as well.
        """
        health = self._consumer.health if self._consumer is not None else None
        return (
            health is not None
            and health.is_there
            and (health.is_pulling or health.paused_for is not None)
        )

    async def run(
        self,
        context: AppContext,
        monitor: TopologyMonitor,
        drain_deadline: DrainDeadline,
        answer: Answer,
    ) -> None:
        """Run the consumer until cancelled, then drain it."""
        drain_deadline.reset()
        self.observer.violations = context.violations.violations
        consumer = self._consumer = Consumer(
            build_subscription(self.joined, context, self.observer),
            context.jetstream,
            attempts_bucket=context.settings.buckets.attempts.name,
            answer=answer,
            create=partial(monitor.create_again, self.stream, self.durable),
            on_found=monitor.compare_again,
            deadlines=drain_deadline,
            quorum_seen_at=lambda: monitor.infos.quorum_seen_at,
        )
        self._register_gauges(consumer, context.metrics)
        await consumer.run()

    def _register_gauges(self, consumer: Consumer, metrics: Metrics) -> None:
        metrics.in_flight.set_function(
            lambda: len(consumer.processor.in_flight) if consumer.processor is not None else 0,
            self.label,
        )
        metrics.consumer_paused.set_function(
            lambda: int(consumer.pause_switch.cause is not None), self.label
        )
        metrics.storage_waiting.set_function(
            lambda: (
                len(consumer.processor.settler.refused) if consumer.processor is not None else 0
            ),
            self.label,
        )
        metrics.bucket_waiting.set_function(
            lambda: consumer.processor.waiting_for_bucket if consumer.processor is not None else 0,
            self.label,
        )
