"""The handler of decide requests, its failure replies, and where its answers go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from msgspec.structs import replace

from router.config import DECIDE, Settings
from router.contracts.answer import failure
from router.contracts.content import is_same
from router.contracts.decision import (
    CANNOT_BE_STORED,
    INTERNAL,
    INVALID_REQUEST,
    MESSAGE_ID_TAKEN,
    OVERLOADED,
)
from router.contracts.extract import (
    digest_of,
    extract_ids,
    extract_request_ids,
    find_answer_id,
    place_of,
)
from router.contracts.headers import MESSAGE_ID, TENANT_ID, TRACE_ID, message_id_in
from router.core.message import Message, Reply
from router.core.outcome import Fault
from router.decide.model import (
    AssignmentPusher,
    DecideHandler,
    DecideMeter,
    DecideRules,
    PolicyDecider,
    ProviderChooser,
    RequestLimits,
)
from router.decide.passing_requests import count_answer
from router.delivery.consume.settlement import (
    BUCKET_REFUSES,
    STORAGE_FULL,
    STREAM_REFUSES,
    TOO_LARGE,
    UNAVAILABLE,
)
from router.delivery.replies.reply_sender import ReplyRules, ReplySender
from router.operate.admin.request_guard import note_refused, own_inboxes
from router.policies.model import RateLimits, Sessions, evaluate
from router.process.observability import Metrics
from router.serve.app_context import AppContext
from router.serve.consumer_child import SubscriptionHandler
from router.serve.handler_metrics import DecideMetrics

BEFORE_PIPELINE_S = 5.0  # a request waits about so long at most until its pipeline begins


def join_decide(context: AppContext) -> SubscriptionHandler:
    """The handler, and what its requesters hear where it gives up or finds no room."""
    settings = context.settings
    return SubscriptionHandler(
        handle=build_decide_handler(context),
        publish_acks_kept=settings.streams.assignments.duplicate_window_ms / 1000,
        subject=settings.decide.subject,
        failure_reply=_build_failure_reply,
        overloaded=_build_overload_reply,
        replied_requests=context.replied_requests,
    )


def build_decide_handler(context: AppContext) -> DecideHandler:
    """The handler with the caches of this process."""
    settings, meter = (
        context.settings,
        DecideMetrics(context.metrics, context.violations, context.places),
    )
    connection = context.connection
    rules = replace(build_decide_rules(settings), read_max_answer=lambda: connection.max_payload)
    return DecideHandler(
        _build_decider(context, meter, rules),
        meter,
        rules=rules,
        cache=context.remembered_answers,
        push=AssignmentPusher(
            context.assignment_store,
            settings.assignment,
            context.assignment_shares,
            context.budgets.table,
        ),
        extensions=context.extensions,
        assignments=context.assignments,
    )


def _build_decider(context: AppContext, meter: DecideMeter, rules: DecideRules) -> PolicyDecider:
    chooser = ProviderChooser(
        Sessions(context.settings.policies.sessions_entries),
        meter,
        providers=context.providers,
        evaluate=context.recorder.evaluate if context.recorder.is_on else evaluate,
        canaries=context.canaries,
        budgets=context.budgets.table.tenants,
        policies=context.policies,
    )
    return PolicyDecider(
        chooser,
        policies=context.policies,
        rates=context.rates or RateLimits(),
        canaries=context.canaries,
        rules=rules,
        read_age=context.budgets.clock.read_age,
    )


def build_request_limits(settings: Settings) -> RequestLimits:
    return RequestLimits(
        max_payload_bytes=settings.max_payload_bytes,
        max_depth=settings.max_depth,
        max_values=settings.max_values,
        assignment_subjects=settings.assignment.subjects,
        strict=settings.contract.mode == "strict",
        refuses_control_headers=settings.reply.confirm == "decision",
    )


def build_decide_rules(settings: Settings) -> DecideRules:
    tenants = frozenset(settings.tenants_allowed)
    return DecideRules(
        limits=build_request_limits(settings),
        tenants_allowed=tenants,
        decide=settings.decide,
        admission=settings.admission,
    )


def build_reply_sender(
    context: AppContext, read_in_flight: Callable[[], Iterable[Message]] = lambda: ()
) -> ReplySender:
    """Where answers go (docs/reference/contracts.md#replies). `read_in_flight`: the requests that
    are being handled.
    """
    settings, connection, metrics = context.settings, context.connection, context.metrics
    rules = ReplyRules(
        reply=settings.reply,
        requests=DECIDE.read_stream(settings),
        own=own_inboxes(settings, connection),
        keep_s=settings.decide.pipeline_timeout_ms / 1000 + BEFORE_PIPELINE_S,
    )
    return ReplySender(
        connection,
        rules,
        conflict=partial(_answer_conflict, metrics),
        refusal=partial(_answer_control_header, context),
        is_same=is_same,
        on_refused=note_refused(metrics, "decide"),
        read_in_flight=read_in_flight,
        clock=context.budgets.clock,
    )


def _build_failure_reply(message: Message, fault: Fault) -> Reply:
    if (text := _NEVER_STORED_TEXTS.get(fault.code)) is not None:
        return _build_failure(message, CANNOT_BE_STORED, text, {"cause": fault.code})
    return _build_failure(
        message, INTERNAL, "The request could not be handled", {"cause": fault.code}
    )


def _build_overload_reply(message: Message, retry_after_s: float, fault: Fault) -> Reply:
    details = {"cause": fault.code, "retry_after_ms": round(retry_after_s * 1000)}
    return _build_failure(message, OVERLOADED, _OVERLOADED_TEXTS[fault.code], details)


_NEVER_STORED_TEXTS = {
    TOO_LARGE: (
        "What this request needs to store is larger than the broker takes; a smaller one may "
        "be stored"
    ),
    STREAM_REFUSES: "What this request needs to store is refused by its stream, until an operator mends it",
    BUCKET_REFUSES: (
        "What this request needs to read or store is refused by its bucket, until an operator "
        "mends it"
    ),
}
_OVERLOADED_TEXTS = {
    STORAGE_FULL.code: "What this request needs to store finds no room; send it again",
    UNAVAILABLE.code: "What this request needs to read or store cannot be reached now; send it again",
}


def _build_failure(message: Message, code: str, text: str, details: Mapping[str, object]) -> Reply:
    ids_read = extract_ids(message)
    data = failure(
        code,
        text,
        details,
        find_answer_id(ids_read, message.headers, place_of(message)),
        ids_read.get(TRACE_ID),
    )
    return Reply(data, ids_read.get(TRACE_ID), ids_read.get(TENANT_ID))


def _answer_conflict(metrics: Metrics, msg_id: str, data: bytes) -> bytes:
    """The answer to a request whose message id another request used first; `data` is empty where
    the stream no longer has it.
    """
    headers = {MESSAGE_ID: msg_id}
    ids_read = extract_request_ids(data, headers)
    count_answer(metrics, ids_read.get("tenant_id", ""), INVALID_REQUEST)
    text = (
        "This message id was used for a different request a moment ago; ids are those of all "
        "tenants together"
    )
    details = {"field": MESSAGE_ID, "cause": MESSAGE_ID_TAKEN}
    return failure(
        INVALID_REQUEST,
        text,
        details,
        find_answer_id(ids_read, headers, msg_id),
        ids_read.get("trace_id"),
    )


def _answer_control_header(
    context: AppContext, name: str, inbox: str, data: bytes, headers: Mapping[str, str]
) -> bytes:
    ids_read = extract_request_ids(data, headers)
    count_answer(context.metrics, ids_read.get("tenant_id", ""), INVALID_REQUEST)
    known_ids = (
        {**ids_read, MESSAGE_ID: message_id}
        if (message_id := message_id_in(headers)) is not None
        else ids_read
    )
    context.violations.refuse(context.settings.decide.subject, name, inbox, data, known_ids)
    text = f"The header {name} is not accepted on this subject"
    answer_id = find_answer_id(ids_read, headers, digest_of(data))  # no stream has it
    return failure(INVALID_REQUEST, text, {"field": name}, answer_id, ids_read.get("trace_id"))
