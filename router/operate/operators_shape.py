"""What operators are told: alerts, violations and dead letters (docs/reference/contracts.md#alerts,
#violation-events, #dead-letters).
"""

from __future__ import annotations

from typing import Any

import orjson

from router.contracts.alert import CRITICAL, INFO, WARNING, Alert, alert_bytes
from router.contracts.codec import BASE64
from router.contracts.dead_letter import build_dead_letter
from router.contracts.header_rules import CONTROL, FORBIDDEN, RULES, find_rule
from router.contracts.headers import MESSAGE_ID
from router.contracts.malformed import STAGES, VALIDATION_CODES, missing_field
from router.contracts.shapes.message_shape import SENT, MessageShape, ShapeLimits
from router.contracts.shapes.parts import UTC_TIME, Schema, add_description, build_object, refer
from router.core.message import Message
from router.core.outcome import MAXDELIVER_EXHAUSTED, PROCESSING_ERROR, VALIDATION_FAILED, Fault
from router.operate.violations.events import ViolationEvent, violation_bytes

_TEXT: Schema = {"type": "string"}
_HEADERS: Schema = {
    "type": "object",
    "additionalProperties": {"anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 2}]},
    "description": "text by name; of a header that stood several times a list of its texts, in order",
}
_REASONS = (VALIDATION_FAILED, MAXDELIVER_EXHAUSTED, PROCESSING_ERROR)
_STORED_NS = 1_700_000_000_000_000_000


def build_alert(_: ShapeLimits) -> MessageShape:
    fields: dict[str, Schema] = {
        "alert_id": {**_TEXT, "format": "uuid"},
        "severity": {"enum": [CRITICAL, WARNING, INFO]},
        "component": _TEXT,
        "message": _TEXT,
        "timestamp": UTC_TIME,
        "metadata": {"type": "object", "description": "ids and figures"},
    }
    example = Alert(
        severity=WARNING,
        component="router.workers",
        cause="worker_silent",
        message="Worker w-1 is silent",
        metadata={"worker_id": "w-1"},
    )
    return MessageShape(
        name="alert",
        title="Alert",
        text="What operators are told, published once and not stored.",
        direction=SENT,
        body=build_object(fields, tuple(fields)),
        page="docs/reference/contracts.md#alerts",
        examples=(
            orjson.loads(
                alert_bytes(example, "6b0a7c0e-3f5d-4f0b-9a64-1f2a3b4c5d6e", 1_700_000_000_123)
            ),
        ),
    )


def build_violation_shape(_: ShapeLimits) -> MessageShape:
    count: Schema = {"type": "integer", "minimum": 1}
    fields: dict[str, Schema] = {
        "version": {"const": "1"},
        "subscription": {
            **_TEXT,
            "description": "the consumer that read it: decide, results or acks",
        },
        "subject": _TEXT,
        "header": {**_TEXT, "description": "its name; `headers`: all of them together"},
        "rule": {"enum": list(dict.fromkeys(rule.name for rule in RULES))},
        "expected": {**_TEXT, "description": "what the header should be"},
        "timestamp": {
            "type": "integer",
            "description": "when the violation was counted, milliseconds since the epoch",
        },
        "router_node_id": _TEXT,
        "count": add_description(
            count, "violations that this event stands for: itself, and those that were left out"
        ),
        "messages": {
            "type": "integer",
            "minimum": 0,
            "description": "of these, how many are the first violation of their message",
        },
    }
    optional: dict[str, Schema] = {
        "tenant_id": add_description(refer("scoped_id"), "absent: it could not be read"),
        "several_tenants": {
            "const": True,
            "description": "the event stands for violations of several tenants",
        },
        "message_id": refer("id"),
        "trace_id": refer("id"),
        "stream": {
            **_TEXT,
            "description": (
                "where the message stands; absent: the listener refused it, and no stream has it"
            ),
        },
        "sequence": count,
        "inbox_prefix": {**_TEXT, "description": "of the requester: each role has its own"},
    }
    return MessageShape(
        name="violation",
        title="ContractViolation",
        text="Who broke which rule of the header contract; never a value of a header.",
        direction=SENT,
        body=build_object({**fields, **optional}, tuple(fields)),
        page="docs/reference/contracts.md#violation-events",
        examples=_list_violations(),
    )


def _list_violations() -> tuple[Any, ...]:
    """Written by the code that writes violations."""
    shared = {
        "subject": "beamline.router.v1.decide",
        "timestamp": 1_700_000_000_123,
        "router_node_id": "host:7",
    }
    missing, forbidden = find_rule((MESSAGE_ID, "missing")), find_rule((CONTROL, FORBIDDEN))
    stored = ViolationEvent(
        subscription="decide",
        header=missing.header,
        rule=missing.name,
        expected=missing.says,
        tenant_id="beta",
        trace_id="4bf92f3577b34da6a3ce929d0e0e4736",
        stream="ROUTER_DECIDE",
        sequence=17,
        inbox_prefix="_INBOX_gateway.one",
        **shared,  # type: ignore[arg-type]
    )
    refused = ViolationEvent(
        subscription="decide",
        header="Nats-TTL",
        rule=FORBIDDEN,
        expected=forbidden.says,
        message_id="m-1",
        count=31,
        messages=31,
        **shared,  # type: ignore[arg-type]
    )
    return tuple(orjson.loads(violation_bytes(event)) for event in (stored, refused))


def build_dead_letter_shape(_: ShapeLimits) -> MessageShape:
    ids = {
        "trace_id": refer("id"),
        "tenant_id": refer("scoped_id"),
        "request_id": refer("id"),
        "assignment_id": refer("id"),
    }
    fields: dict[str, Schema] = {
        "original_subject": _TEXT,
        "msg_id": _TEXT,
        "reason": {"enum": list(_REASONS)},
        "error_code": {"enum": [reason.upper() for reason in _REASONS]},
        "received_at": {
            "type": "integer",
            "description": "when the message was stored, milliseconds since the epoch",
        },
        "original_payload_hash": {**_TEXT, "pattern": "^[0-9a-f]{64}$", "description": "sha256"},
        "context": _build_context(),
        "source": _build_source(),
        "timestamp": {
            "type": "integer",
            "description": "when the dead letter was made, milliseconds since the epoch",
        },
        "router_node_id": _TEXT,
    }
    optional: dict[str, Schema] = {
        **ids,
        "validation_error": _build_validation_error(),
        "last_error": build_object({"code": _TEXT, "message": _TEXT}, ("code", "message")),
        "message": _build_message(),
        "payload_truncated": {
            "const": True,
            "description": "the payload was too large for a dead letter",
        },
        "original_payload_bytes": {"type": "integer", "minimum": 0},
        "message_id": {**_TEXT, "description": "of a dead letter of the inbox, and so is attempts"},
        "attempts": {"type": "integer", "minimum": 0},
    }
    has_fault = {
        "if": {"properties": {"reason": {"const": VALIDATION_FAILED}}},
        "then": {"required": ["validation_error"]},
    }
    return MessageShape(
        name="dead-letter",
        title="DeadLetter",
        text=(
            "A message that failed for good, and why. Its Nats-Msg-Id is derived from where "
            "the message stands."
        ),
        direction=SENT,
        body=build_object(
            {**fields, **optional},
            tuple(fields),
            **has_fault,
            **{"else": {"required": ["last_error"]}},
        ),
        page="docs/reference/contracts.md#dead-letters",
        examples=_list_examples(),
    )


def _build_context() -> Schema:
    fields = {
        "msg_id": _TEXT,
        "tenant_id": refer("scoped_id"),
        "run_id": refer("id"),
        "trace_id": refer("id"),
        "validation_stage": {"enum": list(STAGES)},
    }
    return build_object(fields, ("msg_id",))


def _build_source() -> Schema:
    fields: dict[str, Schema] = {
        "stream": _TEXT,
        "consumer": _TEXT,
        "sequence": {"type": "integer", "minimum": 0},
        "deliveries": {"type": "integer", "minimum": 0},
        "attempts": {"type": "integer", "minimum": 0},
    }
    assumed: Schema = {
        "const": 1,
        "description": "whether the first attempt was begun is not known",
    }
    return build_object({**fields, "attempts_unconfirmed": assumed}, tuple(fields))


def _build_validation_error() -> Schema:
    fields: dict[str, Schema] = {
        "code": {"enum": sorted(VALIDATION_CODES)},
        "message": _TEXT,
        "severity": {"const": "error"},
    }
    return build_object(
        {**fields, "field": {**_TEXT, "description": "its place in the message"}}, tuple(fields)
    )


def _build_message() -> Schema:
    fields = {"id": _TEXT, "subject": _TEXT, "headers": _HEADERS}
    encoding: Schema = {"const": BASE64, "description": "the payload is not UTF-8"}
    return build_object({**fields, "payload": _TEXT, "payload_encoding": encoding}, tuple(fields))


def _list_examples() -> tuple[Any, ...]:
    """Written by the code that writes dead letters."""
    data = b'{"message":{"message_type":"chat","payload":"Hello"}}'
    place = (
        "beamline.router.v1.decide",
        data,
        {"Nats-Msg-Id": "m-1"},
        "ROUTER_DECIDE",
        "router-decide-consumer",
        17,
        _STORED_NS,
        1,
        "",
    )
    missing, failed = (
        missing_field("tenant_id", "message.tenant_id").as_fault(),
        Fault("internal", "the handler failed"),
    )
    dead_letters = (
        build_dead_letter(
            Message(*place),
            reason,
            fault,
            node_id="host:7",
            now_ms=1_700_000_001_000,
            max_bytes=2**20,
        )
        for reason, fault in ((VALIDATION_FAILED, missing), (MAXDELIVER_EXHAUSTED, failed))
    )
    return tuple(orjson.loads(dead_letter.data) for dead_letter in dead_letters)
