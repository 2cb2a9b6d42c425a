"""A message into the system, and its acknowledgement (docs/reference/contracts.md#ingress)."""

from __future__ import annotations

from typing import Any

import orjson

from router.contracts.codec import BASE64
from router.contracts.ingress import ACCEPTED, ERROR, INGRESS, REJECTED, IngressAck, ack_bytes
from router.contracts.shapes.enveloped import build_worker_message
from router.contracts.shapes.message_shape import RECEIVED, SENT, MessageShape, ShapeLimits
from router.contracts.shapes.parts import MOMENT, Schema, add_description, build_object, refer
from router.contracts.shapes.precedence import NEVER, NULL, Path, constrain, find_first, is_present

_PAGE = "docs/reference/contracts.md#ingress"
_FALSY: tuple[object, ...] = (None, "", 0, False, [], {})
_TEXT: Schema = {"type": "string"}


def build_ingress(_: ShapeLimits) -> MessageShape:
    fields: dict[str, Schema] = {
        "message_id": add_description({}, "the message's id; the same message is decided once"),
        "message_type": {"description": "the type of the message, 1..256 characters"},
        "type": {"description": "as message_type, which goes before it"},
        "payload": {"description": "any JSON value but null"},
        "payload_encoding": {"description": f'"{BASE64}" where the payload is bytes in base64'},
        "correlation_id": refer("optional_id"),
        "metadata": refer("object"),
        "timestamp_ms": add_description(MOMENT, "milliseconds since the epoch, or ISO 8601 in UTC"),
        "timestamp": {"description": "as timestamp_ms, which goes before it"},
        "policy_id": refer("optional_scoped_id"),
    }
    return MessageShape(
        name="ingress",
        title="IngressMessage",
        text=(
            "A message that becomes a decide request. Its sender gets an IngressAck; the "
            "decision goes to the reply subject."
        ),
        direction=RECEIVED,
        body=build_worker_message(
            INGRESS.envelope,
            build_object(
                fields,
                allOf=[
                    _require(("message_type",), ("type",)),
                    *_list_payload_rules(),
                    _build_time(),
                ],
            ),
            shared={"tenant_id": "scoped_id", "trace_id": "id"},
            required=("tenant_id",),
            versions=(),
            bare_rules=[_build_message_id((), (("msg_id",),))],
            enveloped_rules=[_build_message_id(("data",), (("msg_id",), ("data", "msg_id")))],
        ),
        page=_PAGE,
        examples=INGRESS_EXAMPLES,
        proto="beamline.ingress.v1.IngressMessage",
    )


def build_ingress_ack(_: ShapeLimits) -> MessageShape:
    fields: dict[str, Schema] = {
        "status": {"enum": [ACCEPTED, REJECTED, ERROR]},
        "timestamp_ms": {"type": "integer", "description": "milliseconds since the epoch"},
        "message_id": {**_TEXT, "description": "empty: it could not be read"},
        "correlation_id": {
            **_TEXT,
            "description": "empty: the message has none, or it could not be read",
        },
        "message": _TEXT,
        "error_code": _TEXT,
        "metadata": refer("strings"),
    }
    accepted = IngressAck(
        status=ACCEPTED,
        timestamp_ms=1_700_000_000_000,
        message_id="m-1",
        metadata={"sequence": "17"},
    )
    problem = "Missing required field: tenant_id"
    rejected = IngressAck(
        status=REJECTED,
        timestamp_ms=1_700_000_000_000,
        message_id="m-1",
        message=problem,
        error_code="invalid_request",
    )
    return MessageShape(
        name="ingress-ack",
        title="IngressAck",
        text=(
            "accepted: the message is stored in the decide stream; rejected: it will never be "
            "taken; error: send it again."
        ),
        direction=SENT,
        body=build_object(
            fields, [name for name in fields if name not in {"message", "error_code"}]
        ),
        page=_PAGE,
        examples=tuple(orjson.loads(ack_bytes(ack)) for ack in (accepted, rejected)),
        proto="beamline.ingress.v1.IngressAck",
    )


def _build_message_id(part: Path, others: tuple[Path, ...]) -> Schema:
    """`message_id`, else `msg_id`, which an envelope may have beside its data."""
    otherwise = find_first(others, refer("id"), otherwise=NEVER)
    return find_first(((*part, "message_id"),), refer("id"), absent=NULL, otherwise=otherwise)


def _require(*places: Path) -> Schema:
    return find_first(places, refer("type"), absent=_FALSY, otherwise=NEVER)


def _list_payload_rules() -> list[Schema]:
    is_base64 = {
        "allOf": [
            constrain(("payload_encoding",), {"const": BASE64}),
            constrain(("payload",), refer("base64")),
        ]
    }
    return [
        is_present(("payload",), NULL),
        {"if": is_present(("payload_encoding",), NULL), "then": is_base64},
    ]


def _build_time() -> Schema:
    return find_first((("timestamp_ms",), ("timestamp",)), MOMENT, absent=NULL)


INGRESS_EXAMPLES: tuple[Any, ...] = (
    {
        "message_id": "m-1",
        "tenant_id": "acme",
        "message_type": "chat",
        "payload": {"text": "Hello"},
        "correlation_id": "c-1",
        "policy_id": "fast",
        "timestamp_ms": 1_700_000_000_000,
    },
    {
        "message_id": "m-2",
        "tenant_id": "acme",
        "type": "chat",
        "payload": "aGVsbG8=",
        "payload_encoding": BASE64,
    },
)
