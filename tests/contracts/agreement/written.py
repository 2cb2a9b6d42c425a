"""Messages as the router writes them, from random legal content: each must be valid, and its reader
must take it.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from router.bus.publisher import make_envelope
from router.contracts.alert import CRITICAL, INFO, WARNING, Alert, alert_bytes
from router.contracts.answer import (
    build_hint_warning,
    build_skipped_warning,
    failure,
    success,
    success_with,
    with_message,
)
from router.contracts.assignment import assignment_bytes, assignment_id_of
from router.contracts.codec import oversized_payload
from router.contracts.codes import read_codes
from router.contracts.dead_letter import build_dead_letter
from router.contracts.decision import Decision, RouteRequest, SkippedAssignment
from router.contracts.envelope import envelope_bytes
from router.contracts.extension import (
    content_bytes,
    message_bytes,
    metadata_bytes,
    opening_bytes,
    request_bytes,
)
from router.contracts.header_rules import RULES
from router.contracts.ingress import IngressAck, ack_bytes
from router.contracts.malformed import missing_field
from router.contracts.provider import ProviderResponse, refuse, response_bytes
from router.contracts.provider_call import call_bytes
from router.contracts.provider_chunk import StreamChunk, chunk_bytes, last_chunk
from router.contracts.provider_request import ProviderRequest
from router.contracts.raw_json import RawJson
from router.contracts.result import MAX_LATENCY_MS, RESULT_STATUSES
from router.contracts.usage import UsageEvent, usage_bytes
from router.core.outcome import MAXDELIVER_EXHAUSTED, PROCESSING_ERROR, VALIDATION_FAILED, Fault
from router.operate.audit.audit_event import (
    BEGUN,
    CLI,
    CONSOLE,
    DONE,
    FAILED,
    AuditEvent,
    audit_bytes,
    read_audit_event,
)
from router.operate.violations.events import ViolationEvent, read_violation, violation_bytes
from tests.support.requests import a_message

IDS = ("r-1", "x" * 128, "~", "4bf92f3577b34da6a3ce929d0e0e4736")
TENANTS = ("acme", "a:b.c-d_e", "9" * 128)
TYPES = ("chat", "t" * 256, "é ü")
PAYLOADS = (
    b"\xff\x00",
    b"hello",
    None,
    *map(RawJson.encode, ("hello", {"text": ["a", None]}, 0, 1.5, True, [], 2**64)),
)
TOO_LARGE = oversized_payload(2**21, 2**20).as_fault()
CODES = [code.code for code in read_codes().values() if "answer" in code.kinds]


def write_answer(chance: random.Random) -> bytes:
    trace = chance.choice((None, *IDS))
    match chance.randrange(4):
        case 3:
            answer = success(_decision(chance), chance.choice(IDS), trace)
            return with_message(answer, content_bytes(_request(chance), {}))
        case 0:
            return success(_decision(chance), chance.choice(IDS), trace)
        case 1:
            warnings = [
                build_hint_warning("polcy_id", "policy_id"),
                build_skipped_warning(SkippedAssignment("assignment_disabled", "off")),
            ]
            return success_with(
                warnings[: chance.randrange(3)], _decision(chance), chance.choice(IDS), trace
            )
        case _:
            details = chance.choice(
                (
                    None,
                    {},
                    {"field": "message.tenant_id"},
                    {"cause": "tenant_share", "retry_after_ms": 20},
                )
            )
            return failure(chance.choice(CODES), "why", details, chance.choice(IDS), trace)


def write_assignment(chance: random.Random) -> bytes:
    request = _request(chance)
    return assignment_bytes(
        assignment_id_of(request.tenant_id, request.answer_id), request, _decision(chance)
    )


def write_usage(chance: random.Random) -> bytes:
    event = UsageEvent(
        tenant_id=chance.choice(TENANTS),
        provider_id=chance.choice(("openai", "p" * 128)),
        event_type=chance.choice(TYPES),
        latency_ms=chance.choice((0, 1, MAX_LATENCY_MS)),
        cost=chance.choice((0.0, 1e-7, 0.1, 1e9)),
        status=chance.choice(sorted(RESULT_STATUSES)),
        timestamp=chance.choice((0, 1_700_000_000_000)),
        trace_id=chance.choice((None, *IDS)),
        assignment_id=chance.choice(IDS),
        request_id=chance.choice((None, *IDS)),
        is_correlated=chance.random() < 0.5,
    )
    return usage_bytes(event)


def write_alert(chance: random.Random) -> bytes:
    alert = Alert(
        severity=chance.choice((CRITICAL, WARNING, INFO)),
        component="router",
        cause="c",
        message=chance.choice(("", "é")),
    )
    return alert_bytes(
        alert,
        "6b0a7c0e-3f5d-4f0b-9a64-1f2a3b4c5d6e",
        chance.choice((0, 999, 1_700_000_000_123, 253_402_300_799_999)),
    )


def write_violation(chance: random.Random) -> bytes:
    rule = chance.choice(RULES)
    is_stored = chance.random() < 0.5
    event = ViolationEvent(
        subscription=chance.choice(("decide", "results", "acks")),
        subject="s",
        header=rule.header,
        rule=rule.name,
        expected=rule.says,
        tenant_id=chance.choice((None, *TENANTS)),
        several_tenants=chance.choice((None, True)),
        message_id=chance.choice((None, *IDS)),
        trace_id=chance.choice((None, *IDS)),
        stream="S" if is_stored else None,
        sequence=chance.choice((1, 2**53)) if is_stored else None,
        inbox_prefix=chance.choice((None, "_INBOX")),
        timestamp=1_700_000_000_000,
        router_node_id="n",
        count=chance.choice((1, 1_000_000)),
        messages=chance.choice((0, 1, 1_000_000)),
    )
    assert read_violation(violation_bytes(event)) == event
    return violation_bytes(event)


def write_audit(chance: random.Random) -> bytes:
    values = chance.choice((None, {}, {"version": 3, "api_key": "x"}, {"rows": ["y" * 100] * 100}))
    optional = chance.choice(
        ({}, {"nats_user": "ops", "tenant_id": "acme"}, {"note": "é" * 2_000, "error": "e" * 2_000})
    )
    outcome, via = chance.choice((BEGUN, DONE, FAILED)), chance.choice((CLI, CONSOLE))
    texts = {
        name: chance.choice(("", "policy put", "é" * 300))
        for name in ("by", "command", "target", "router_node_id")
    }
    data = audit_bytes(
        AuditEvent(
            id="i",
            timestamp=1,
            via=via,
            outcome=outcome,
            before=values,
            after=values,
            **texts,
            **optional,
        )
    )
    read_audit_event(data)
    return data


def write_dead_letter(chance: random.Random) -> bytes:
    reason = chance.choice((VALIDATION_FAILED, MAXDELIVER_EXHAUSTED, PROCESSING_ERROR))
    headers = chance.choice(({}, {"Nats-Msg-Id": "m\udcff"}, {"api_key": "x", "tenant_id": "acme"}))
    message = replace(
        a_message(chance.choice((b"", b"\xff", b"{}", b"x" * 70_000)), headers),
        is_first_assumed=chance.random() < 0.5,
    )
    fault = chance.choice(
        (
            missing_field("tenant_id", "message.tenant_id").as_fault(),
            Fault("handler_failed", "why"),
            TOO_LARGE,
        )
    )
    seen = chance.choice(
        (
            {},
            {
                "tenant_id": "acme",
                "trace_id": "t",
                "request_id": "r",
                "assignment_id": "a",
                "run_id": "u",
            },
        )
    )
    whole = chance.random() < 0.8
    return build_dead_letter(
        message,
        reason,
        fault,
        node_id="n",
        now_ms=1,
        max_bytes=2**20,
        include_message=whole,
        seen=seen,
    ).data


def write_extension_request(chance: random.Random) -> bytes:
    decision = chance.choice((None, _decision(chance)))
    metadata = metadata_bytes(
        chance.choice(({}, {"user_id": "u"})), chance.choice(TENANTS), decision
    )
    opening = opening_bytes(chance.choice(IDS), chance.choice(TENANTS))
    return request_bytes(
        opening, message_bytes(_request(chance)), metadata, chance.choice(({}, {"a": [1]}))
    )


def write_provider_call(chance: random.Random) -> bytes:
    request = ProviderRequest(
        provider_id=chance.choice(("echo", "e" * 64)),
        tenant_id=chance.choice(TENANTS),
        request_id=chance.choice(IDS),
        trace_id=chance.choice(IDS),
        body=chance.choice(("", "hello", b"\xff")),
        parameters=chance.choice(({}, {"temperature": 0})),
    )
    return call_bytes(request, chance.choice(({}, {"model": "m"})))


def write_provider_response(chance: random.Random) -> bytes:
    if chance.random() < 0.3:
        return response_bytes(
            refuse(
                chance.choice(IDS), "internal", "why", status=chance.choice(("error", "timeout"))
            )
        )
    body = chance.choice(("", "hello", b"\xff"))
    metadata = chance.choice(({}, {"prompt_tokens": "1"}))
    return response_bytes(
        ProviderResponse(
            request_id=chance.choice(IDS), status="success", body=body, metadata=metadata, cost=0.25
        )
    )


def write_chunk(chance: random.Random) -> bytes:
    if chance.random() < 0.3:
        return chunk_bytes(last_chunk(refuse(chance.choice(IDS), "internal", "why")))
    data = chance.choice(("", "hello", b"\xff"))
    return chunk_bytes(
        StreamChunk(request_id=chance.choice(("", *IDS)), data=data, done=chance.random() < 0.5)
    )


def write_ingress_ack(chance: random.Random) -> bytes:
    names = chance.choice(
        ({}, {"message_id": "m-1"}, {"message_id": "m-1", "correlation_id": "c-1"})
    )
    why = chance.choice(
        ({}, {"message": "why", "error_code": "internal"}, {"metadata": {"sequence": "1"}})
    )
    return ack_bytes(
        IngressAck(
            status=chance.choice(("accepted", "rejected", "error")), timestamp_ms=1, **names, **why
        )
    )


def write_envelope(chance: random.Random) -> bytes:
    actor = chance.choice(("HUMAN", "AGENT", "SYSTEM"))
    return envelope_bytes(
        make_envelope(
            "LoopCreated",
            {"a": 1},
            message_id=chance.choice(IDS),
            actor_id=chance.choice(("u", "é" * 256)),
            actor_kind=actor,
        )
    )


def _request(chance: random.Random) -> RouteRequest:
    workflow = (
        {name: chance.choice(IDS) for name in ("run_id", "flow_id", "step_id")}
        if chance.random() < 0.5
        else {}
    )
    return RouteRequest(
        tenant_id=chance.choice(TENANTS),
        message_type=chance.choice(TYPES),
        payload=chance.choice(PAYLOADS),
        payload_ref=chance.choice((None, "s3://x")),
        message_id=chance.choice((None, *IDS)),
        request_key="k",
        answer_id=chance.choice(IDS),
        trace_id=chance.choice((None, *IDS)),
        metadata=chance.choice(({}, {"a": [1]})),
        **workflow,
    )


def _decision(chance: random.Random) -> Decision:
    metadata: dict[str, str] = {
        "policy_id": chance.choice(TENANTS),
        "policy_version": str(chance.randrange(1, 100)),
    }
    if chance.random() < 0.3:
        metadata["executed_extensions"] = "[]"
    latency, cost = chance.choice((0, 0.5, 800, 1e12)), chance.choice((0, 0.012, 1e9))
    return Decision(
        chance.choice(("openai", "p")),
        chance.choice(("weighted", "sticky")),
        chance.randrange(100),
        latency,
        cost,
        metadata,
    )


WRITERS: Mapping[str, Callable[[random.Random], Any]] = {
    "answer": write_answer,
    "assignment": write_assignment,
    "usage": write_usage,
    "alert": write_alert,
    "dead-letter": write_dead_letter,
    "violation": write_violation,
    "audit": write_audit,
    "extension-request": write_extension_request,
    "provider-call": write_provider_call,
    "provider-response": write_provider_response,
    "chunk": write_chunk,
    "ingress-ack": write_ingress_ack,
    "envelope": write_envelope,
}
