"""What operators are told: alerts and dead letters (docs/contracts.md#alerts, docs/contracts.md#dead-letters)."""

from __future__ import annotations

from typing import Any

import orjson

from router.contracts.alert import CRITICAL, INFO, WARNING, Alert, alert_bytes
from router.contracts.codec import BASE64
from router.contracts.dead_letter import build_dead_letter
from router.contracts.malformed import STAGES, VALIDATION_CODES, missing_field
from router.contracts.shapes.message_shape import SENT, MessageShape, ShapeLimits
from router.contracts.shapes.parts import UTC_TIME, Schema, build_object, refer
from router.core.message import Message
from router.core.outcome import MAXDELIVER_EXHAUSTED, PROCESSING_ERROR, VALIDATION_FAILED, Fault

_TEXT: Schema = {"type": "string"}
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
        severity=WARNING, component="router.workers", cause="worker_silent", message="Worker w-1 is silent", metadata={"worker_id": "w-1"}
    )
    return MessageShape(
        name="alert",
        title="Alert",
        text="What operators are told, published once and not stored.",
        direction=SENT,
        body=build_object(fields, tuple(fields)),
        page="docs/contracts.md#alerts",
        examples=(orjson.loads(alert_bytes(example, "6b0a7c0e-3f5d-4f0b-9a64-1f2a3b4c5d6e", 1_700_000_000_123)),),
    )


def build_dead_letter_shape(_: ShapeLimits) -> MessageShape:
    ids = {"trace_id": refer("id"), "tenant_id": refer("scoped_id"), "request_id": refer("id"), "assignment_id": refer("id")}
    fields: dict[str, Schema] = {
        "original_subject": _TEXT,
        "msg_id": _TEXT,
        "reason": {"enum": list(_REASONS)},
        "error_code": {"enum": [reason.upper() for reason in _REASONS]},
        "received_at": {"type": "integer", "description": "when the message was stored, milliseconds since the epoch"},
        "original_payload_hash": {**_TEXT, "pattern": "^[0-9a-f]{64}$", "description": "sha256"},
        "context": _build_context(),
        "source": _build_source(),
        "timestamp": {"type": "integer", "description": "when the dead letter was made, milliseconds since the epoch"},
        "router_node_id": _TEXT,
    }
    optional: dict[str, Schema] = {
        **ids,
        "validation_error": _build_validation_error(),
        "last_error": build_object({"code": _TEXT, "message": _TEXT}, ("code", "message")),
        "message": _build_message(),
        "payload_truncated": {"const": True, "description": "the payload was too large for a dead letter"},
        "original_payload_bytes": {"type": "integer", "minimum": 0},
        "message_id": {**_TEXT, "description": "of a dead letter of the inbox, and so is attempts"},
        "attempts": {"type": "integer", "minimum": 0},
    }
    has_fault = {"if": {"properties": {"reason": {"const": VALIDATION_FAILED}}}, "then": {"required": ["validation_error"]}}
    return MessageShape(
        name="dead-letter",
        title="DeadLetter",
        text="A message that failed for good, and why. Its Nats-Msg-Id is derived from where the message stands.",
        direction=SENT,
        body=build_object({**fields, **optional}, tuple(fields), **has_fault, **{"else": {"required": ["last_error"]}}),
        page="docs/contracts.md#dead-letters",
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
    assumed: Schema = {"const": 1, "description": "whether the first attempt was begun is not known"}
    return build_object({**fields, "attempts_unconfirmed": assumed}, tuple(fields))


def _build_validation_error() -> Schema:
    fields: dict[str, Schema] = {"code": {"enum": sorted(VALIDATION_CODES)}, "message": _TEXT, "severity": {"const": "error"}}
    return build_object({**fields, "field": {**_TEXT, "description": "its place in the message"}}, tuple(fields))


def _build_message() -> Schema:
    fields = {"id": _TEXT, "subject": _TEXT, "headers": refer("strings")}
    encoding: Schema = {"const": BASE64, "description": "the payload is not UTF-8"}
    return build_object({**fields, "payload": _TEXT, "payload_encoding": encoding}, tuple(fields))


def _list_examples() -> tuple[Any, ...]:
    """Written by the code that writes dead letters."""
    data = b'{"message":{"message_type":"chat","payload":"Hello"}}'
    place = ("beamline.router.v1.decide", data, {"Nats-Msg-Id": "m-1"}, "ROUTER_DECIDE", "router-decide-consumer", 17, _STORED_NS, 1, "")
    missing, failed = missing_field("tenant_id", "message.tenant_id").as_fault(), Fault("internal", "the handler failed")
    letters = (
        build_dead_letter(Message(*place), reason, fault, node_id="host:7", now_ms=1_700_000_001_000, max_bytes=2**20)
        for reason, fault in ((VALIDATION_FAILED, missing), (MAXDELIVER_EXHAUSTED, failed))
    )
    return tuple(orjson.loads(letter.data) for letter in letters)
