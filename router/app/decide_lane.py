"""The decide lane, put together: its handler, its letters, its apologies, and where its answers go."""

from __future__ import annotations

from router import ids
from router.app.meters import DecideMetrics, LaneMetrics
from router.clock import now_ms
from router.config import ConsumerConfig, Settings
from router.contracts.answer import failure
from router.contracts.decision import INTERNAL, INVALID_REQUEST
from router.contracts.glimpse import glimpse
from router.contracts.letter import build_letter
from router.decide import DecideHandler, DecideRules, Limits, Replays
from router.delivery.answers import Answers, ReplyRules
from router.delivery.connection import Connection
from router.delivery.lane import Lane, Pace
from router.message import Effect, Message, Reply
from router.observability import Metrics
from router.outcome import Fault
from router.policy import Policies, RateLimits, Sessions


def decide_lane(settings: Settings, policies: Policies, metrics: Metrics, connection: Connection, observer: LaneMetrics) -> Lane:
    """All the meaning that delivery is handed for decide requests."""

    def letter(message: Message, reason: str, fault: Fault) -> Effect | None:
        return _letter(message, reason, fault, settings, connection.max_payload)

    return Lane(
        stream=settings.streams.decide.name,
        durable=settings.decide.durable,
        pace=pace_of(settings.decide, settings),
        handle=decide_handler(settings, policies, metrics),
        letter=letter,
        apology=_apology,
        is_allowed=ids.subject_matcher(settings.subject_allowlist) if settings.subject_allowlist else None,
        observer=observer,
    )


def decide_handler(settings: Settings, policies: Policies, metrics: Metrics) -> DecideHandler:
    """The handler with this instance's memories."""
    limits = Limits(
        max_payload_bytes=settings.max_payload_bytes,
        max_depth=settings.max_depth,
        assignment_subjects=settings.assignment.subjects,
        strict=settings.contract.mode == "strict",
    )
    max_age_ms = settings.decide.max_age_ms
    return DecideHandler(
        policies,
        DecideMetrics(metrics),
        rules=DecideRules(
            limits=limits,
            tenants_allowed=frozenset(settings.tenants_allowed),
            max_age=max_age_ms / 1000 if max_age_ms is not None else None,
        ),
        replays=Replays(settings.idempotency.entries, settings.idempotency.ttl_ms / 1000),
        sessions=Sessions(settings.policies.sessions_entries),
        rates=RateLimits(),
    )


def decide_answers(settings: Settings, connection: Connection, metrics: Metrics) -> Answers:
    """Where answers go (CONTRACTS §4)."""

    def count_refused() -> None:
        metrics.replies_refused.value += 1

    rules = ReplyRules(
        reply_subject=settings.reply.subject or "{subject}.reply",
        prefixes=settings.reply.prefixes,
        dedupe_window=settings.streams.decide.duplicate_window_ms / 1000,
        inbox_wait=settings.reply.inbox_wait_ms / 1000,
    )
    return Answers(connection, rules, conflict=_conflict, refusal=_control_header, on_refused=count_refused)


def pace_of(config: ConsumerConfig, settings: Settings) -> Pace:
    """How a durable is driven, in seconds."""
    return Pace(
        max_attempts=config.max_attempts,
        backoff=tuple(wait / 1000 for wait in config.backoff_ms),
        ack_wait=config.ack_wait_ms / 1000,
        prefetch=config.prefetch,
        max_delayed=config.max_ack_pending // 2,
        slots=config.slots,
        handler_timeout=config.handler_timeout_ms / 1000,
        pull_expires=config.pull_expires_ms / 1000,
        heartbeat=config.heartbeat_ms / 1000,
        evidence_timeout=settings.evidence.timeout_ms / 1000,
        store_retry=settings.evidence.retry_ms / 1000,
    )


def _apology(message: Message, fault: Fault) -> Reply:
    seen = glimpse(message)
    answer_id = seen.get("request_id") or seen.get("message_id") or message.headers.get("Nats-Msg-Id")
    data = failure(INTERNAL, "The request could not be handled", {"cause": fault.code}, answer_id, seen.get("trace_id"))
    return Reply(data, {"version": "1"})


def _conflict(msg_id: str) -> bytes:
    return failure(INVALID_REQUEST, "This message id was used for a different request", {"field": "Nats-Msg-Id"}, msg_id)


def _control_header(name: str, _: bytes) -> bytes:
    return failure(INVALID_REQUEST, f"The header {name} is not accepted on this subject", {"field": name})


def _letter(message: Message, reason: str, fault: Fault, settings: Settings, max_bytes: int) -> Effect | None:
    if not settings.dlq.enabled:
        return None
    return build_letter(
        message,
        reason,
        fault,
        node_id=settings.node_id,
        now_ms=now_ms(),
        max_bytes=max_bytes,
        include_message=settings.dlq.include_full_message,
        subject_pattern=settings.dlq.subject_pattern,
        seen=glimpse(message),
    )
