"""The acks lane, put together: what workers say of the assignments that they were given, made visible."""

from __future__ import annotations

from router.acks import AckRules, AcksHandler
from router.app.ground import Ground
from router.app.known import AckMarks
from router.app.lane_metrics import LaneMetrics
from router.app.letters import letter_writer
from router.app.meters import AcksMetrics
from router.app.pace import allow_list, pace_of, worker_limits
from router.contracts.ack import ACK
from router.contracts.extract import extract_ids
from router.delivery.subscription import Subscription
from router.observability.tracing_messages import trace_dead_letter, trace_handler


def acks_lane(ground: Ground, observer: LaneMetrics) -> Subscription:
    """All the meaning that delivery is handed for acknowledgements."""
    settings = ground.settings
    return Subscription(
        stream=settings.streams.acks.name,
        durable=settings.acks.durable,
        options=pace_of(settings.acks, settings),
        handle=trace_handler(acks_handler(ground)),
        dead_letter=trace_dead_letter(letter_writer(ground, ACK)),
        failure_reply=lambda *_: None,
        is_allowed=allow_list(settings),
        observer=observer,
        tenant_of=lambda message: extract_ids(message, ACK).get("tenant_id", ""),
    )


def acks_handler(ground: Ground) -> AcksHandler:
    settings = ground.settings
    return AcksHandler(
        ground.known,
        AcksMetrics(ground.metrics, ground.violations),
        AckMarks(ground.connection, settings.buckets.assignments_known.name),
        ground.alerts,
        rules=AckRules(limits=worker_limits(settings), tenants_allowed=frozenset(settings.tenants_allowed)),
    )
