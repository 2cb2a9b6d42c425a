"""The subscription for acks: workers report that they accepted or refused an assignment, and the router makes it visible."""

from __future__ import annotations

from router.app.app_context import AppContext
from router.app.consumer_options import allow_list, build_consumer_options, worker_limits
from router.app.dead_letter_writer import build_dead_letter_writer
from router.contracts.ack import EXEC_ASSIGNMENT_ACK
from router.contracts.extract import extract_ids
from router.delivery.subscription import Subscription
from router.operations.observability.tracing_messages import trace_dead_letter, trace_handler
from router.routing.reports import AckRules, AcksHandler
from router.services.consumer_metrics import ConsumerMetrics
from router.services.handler_metrics import AcksMetrics
from router.services.known_assignments import AckStore


def build_acks_subscription(context: AppContext, observer: ConsumerMetrics) -> Subscription:
    """Everything that the consumer needs to handle acks of workers."""
    settings = context.settings
    return Subscription(
        stream=settings.streams.acks.name,
        durable=settings.acks.durable,
        options=build_consumer_options(settings.acks, settings),
        handle=trace_handler(build_acks_handler(context)),
        dead_letter=trace_dead_letter(build_dead_letter_writer(context, EXEC_ASSIGNMENT_ACK)),
        failure_reply=lambda *_: None,
        is_allowed=allow_list(settings),
        observer=observer,
        tenant_of=lambda message: extract_ids(message, EXEC_ASSIGNMENT_ACK).get("tenant_id", ""),
    )


def build_acks_handler(context: AppContext) -> AcksHandler:
    settings = context.settings
    return AcksHandler(
        context.assignments,
        AcksMetrics(context.metrics, context.violations),
        AckStore(context.connection, settings.buckets.assignments_known.name),
        context.alerts,
        rules=AckRules(limits=worker_limits(settings), tenants_allowed=frozenset(settings.tenants_allowed)),
    )
