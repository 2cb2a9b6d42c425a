"""Joins a subscription: one SubscriptionSpec (`config.subscriptions`) and one handler become what a
consumer needs.

    SubscriptionSpec ──┐
    SubscriptionHandler┴─ JoinedSubscription ── build_subscription ──> Subscription ── ConsumerChild ──> the supervision tree

All of it is built once, when the consumer starts: a message costs no call more.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from router.config import Settings, SubscriptionSpec
from router.contracts.extract import extract_ids
from router.contracts.worker import MessageType
from router.core import ids
from router.core.message import Message, Reply
from router.core.outcome import Fault, Handler
from router.delivery.consume.subscription import ConsumerOptions, StoredCopies, Subscription
from router.delivery.settings import ConsumerConfig
from router.operate.dead_letters.dead_letter_writer import build_dead_letter_writer
from router.operate.topology.declared_topology import build_stream_of
from router.process.observability.tracing_messages import trace_dead_letter, trace_handler
from router.serve.app_context import AppContext
from router.serve.consumer_metrics import ConsumerMetrics


class SubscriptionHandler(Struct, frozen=True, kw_only=True):
    """A handler, and what it knows of its subscription beside the spec: fields of
    `delivery.consume.subscription.Subscription`.
    """

    handle: Handler
    publish_acks_kept: float = 0.0
    subject: str | None = None
    failure_reply: Callable[[Message, Fault], Reply | None] = lambda *_: None
    overloaded: Callable[[Message, float, Fault], Reply] | None = None
    live_marks: StoredCopies | None = None


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
        live_marks=handler.live_marks,
        tenant_of=lambda message: extract_ids(message, kind).get("tenant_id", ""),
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
