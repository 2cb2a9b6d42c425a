"""A subscription joined with its handler, and run as a child of the supervision tree: its metrics,
its readiness and its restarts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import Struct

from router.config import Settings, SubscriptionSpec
from router.contracts.extract import extract_ids
from router.contracts.worker import MessageType
from router.core import ids
from router.core.clock import Clock, steady
from router.core.message import Message, Reply
from router.core.outcome import Fault, Handler
from router.delivery.consume.consumer import Consumer
from router.delivery.consume.settle import SendReply
from router.delivery.consume.subscription import (
    ConsumerOptions,
    StoredCopies,
    Subscription,
    TurnRules,
    tenant_in_header,
)
from router.delivery.settings import ConsumerConfig, DrainConfig
from router.operate.alerts import Alerts
from router.operate.dead_letters.dead_letter_writer import build_dead_letter_writer
from router.operate.topology.declared_topology import build_stream_of
from router.operate.topology.monitor import TopologyMonitor
from router.process.observability import Metrics, ReadinessCheck
from router.process.observability.tracing import trace_dead_letter, trace_handler
from router.serve.app_context import AppContext
from router.serve.consumer_metrics import ConsumerMetrics

# -- Joins a subscription: one SubscriptionSpec (`config.subscriptions`) and one handler become
# what a consumer needs.
#
# SubscriptionSpec ──┐
# SubscriptionHandler┴─ JoinedSubscription ── build_subscription ──> Subscription ── ConsumerChild ──> the supervision tree
#
# All of it is built once, when the consumer starts: a message costs no call more.


class SubscriptionHandler(Struct, frozen=True, kw_only=True):
    """A handler, and what it knows of its subscription beside the spec: fields of
    `delivery.consume.subscription.Subscription`.
    """

    handle: Handler
    publish_acks_kept: float = 0.0
    subject: str | None = None
    failure_reply: Callable[[Message, Fault], Reply | None] = lambda *_: None
    overloaded: Callable[[Message, float, Fault], Reply] | None = None
    replied_requests: StoredCopies | None = None


class JoinedSubscription(Struct, frozen=True):
    """`message_type`: how the ids of a message that fails are read; None: as those of a decide
    request.
    """

    spec: SubscriptionSpec[ConsumerConfig]
    build: Callable[[AppContext], SubscriptionHandler]
    message_type: MessageType | None = None


def build_subscription(
    joined: JoinedSubscription, context: AppContext, observer: ConsumerMetrics
) -> Subscription:
    """Everything that the consumer needs to handle the messages."""
    settings, spec, kind = context.settings, joined.spec, joined.message_type
    section, handler = spec.read_section(settings), joined.build(context)
    on_omitted = observer.on_dead_letter_omitted if spec.is_answered else None
    return Subscription(
        stream=spec.read_stream(settings).name,
        durable=section.durable,
        subject=handler.subject,
        options=_build_options(section, settings, waits_alone=spec.is_answered),
        handle=trace_handler(handler.handle),
        dead_letter=trace_dead_letter(build_dead_letter_writer(context, kind, on_omitted)),
        failure_reply=handler.failure_reply,
        is_allowed=ids.subject_matcher(settings.subject_allowlist)
        if settings.subject_allowlist
        else None,
        observer=observer,
        replied_requests=handler.replied_requests,
        tenant_of=lambda message: extract_ids(message, kind).get("tenant_id", ""),
        turns=TurnRules(
            lambda message: context.places.find(tenant_in_header(message)),
            settings.admission.weights,
        ),
        overloaded=handler.overloaded,
        publish_acks_kept=handler.publish_acks_kept,
        stream_of=build_stream_of(settings),
    )


def _build_options(
    section: ConsumerConfig, settings: Settings, *, waits_alone: bool
) -> ConsumerOptions:
    """In seconds. A plain request needs no bucket; every report of a worker needs its assignment's
    record.
    """
    return ConsumerOptions(
        max_attempts=section.max_attempts,
        backoff=tuple(wait / 1000 for wait in section.backoff_ms),
        ack_wait=section.ack_wait_ms / 1000,
        prefetch=section.prefetch,
        prefetch_bytes=section.prefetch_bytes,
        max_delayed=section.max_ack_pending // 2,
        slots=section.slots,
        slots_beside_prefetch=True,
        handler_timeout=section.handler_timeout_ms / 1000,
        pull_expires=section.pull_expires_ms / 1000,
        heartbeat=section.heartbeat_ms / 1000,
        publish_timeout=settings.effects.publish_timeout_ms / 1000,
        store_retry=settings.effects.retry_ms / 1000,
        max_waiting=max(1, section.prefetch // 4),
        waits_alone=waits_alone,
        waits_alone_for_refusal=True,
        patience=settings.effects.patience_ms / 1000,
        full_retry=settings.effects.full_retry_ms / 1000,
    )


# -- One consumer as a child of the supervision tree: its metrics, its readiness and its restarts.


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
            metrics, alerts, self.label, settings, is_replied_to=joined.spec.is_answered
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
        send_reply: SendReply,
    ) -> None:
        """Run the consumer until cancelled, then drain it."""
        drain_deadline.reset()
        self.observer.violations = context.violations.violations
        consumer = self._consumer = Consumer(
            build_subscription(self.joined, context, self.observer),
            context.jetstream,
            attempts_bucket=context.settings.buckets.attempts.name,
            send_reply=send_reply,
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
