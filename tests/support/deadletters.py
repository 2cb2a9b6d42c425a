"""Builders of dead letters, as they are stored."""

from typing import Any

import orjson

from router.contracts.letter import build_letter
from router.delivery.api import Stored
from router.message import Message
from router.outcome import Fault

STORED = "2026-01-02T03:04:05.123456789Z"


def a_failed_message(data: bytes = b'{"message":{}}', **facts: Any) -> Message:
    facts = {"subject": "beamline.router.v1.decide", "stream": "ROUTER_DECIDE", "consumer": "c", "sequence": 7, "headers": {}, **facts}
    facts = {"stored_ns": 1_700_000_000_000_000_000, "deliveries": 3, "token": "", "starts": 2, **facts}
    return Message(data=data, **facts)


def a_letter(message: Message | None = None, *, reason: str = "validation_failed", max_bytes: int = 1 << 20, seen: Any = None) -> Stored:
    """A letter as our own router writes it."""
    fault = Fault("SCHEMA_VALIDATION_FAILED", "Missing required field: tenant_id", "message.tenant_id", "schema")
    effect = build_letter(message or a_failed_message(), reason, fault, node_id="n", now_ms=1, max_bytes=max_bytes, seen=seen)
    return Stored(effect.subject, 1, effect.data, dict(effect.headers), STORED)


def stored(data: bytes | dict[str, Any], subject: str = "beamline.router.v1.decide.dlq", **headers: str) -> Stored:
    """Anything at all on a dead-letter subject."""
    return Stored(subject, 1, data if isinstance(data, bytes) else orjson.dumps(data), headers, STORED)
