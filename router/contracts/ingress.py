"""A message into the system and its IngressAck: `beamline.ingress.v1.message`
(docs/reference/contracts.md#ingress).

    IngressMessage   {message_id, tenant_id, message_type, payload, correlation_id?, trace_id?,
                     metadata?, timestamp_ms?, policy_id?}
                     in JSON or protobuf; `type` is `message_type`, `timestamp` (ISO 8601) is
                     `timestamp_ms`
    IngressAck       {message_id, correlation_id, status accepted | rejected | error, message?, error_code?, metadata, timestamp_ms}

This reads only what the IngressAck needs. The message becomes a decide request in form a
(docs/reference/contracts.md#decide-requests), whose reader checks the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import orjson
from msgspec import Struct

from router.contracts import field_readers
from router.contracts.codec import BASE64, text_of
from router.contracts.field_readers import Object, read_numbers
from router.contracts.headers import traceparent_in
from router.contracts.malformed import missing_field
from router.contracts.pb.beamline.ingress.v1 import ingress_pb2
from router.contracts.raw_json import PAYLOAD, RawJson
from router.contracts.shapes.enveloped import build_worker_message
from router.contracts.shapes.message_shape import RECEIVED, SENT, MessageShape, ShapeLimits
from router.contracts.shapes.parts import (
    MOMENT,
    TEXT,
    Schema,
    add_description,
    build_object,
    build_written,
    refer,
)
from router.contracts.shapes.precedence import NEVER, NULL, Path, constrain, find_first, is_present
from router.contracts.worker import MessageType, WorkerMessageLimits, read_body
from router.core import ids
from router.core.message import NO_HEADERS

INGRESS_SUBJECT = "beamline.ingress.v1.message"
ACCEPTED = "accepted"  # it stands in the decide stream
REJECTED = "rejected"  # these bytes will never be taken
ERROR = "error"  # unknown outcome: the same message may be sent again, and is decided once
_STATUS: Schema = {"enum": [ACCEPTED, REJECTED, ERROR]}
_TIME: Schema = {"type": "integer"}
_NO_CORRELATION = "empty: the message has none, or it could not be read"


class IngressRequest(Struct, frozen=True, kw_only=True):
    """A message as the decide request that it becomes: the same message is always the same bytes
    under the same id.
    """

    message_id: str
    tenant_id: str
    correlation_id: str | None
    body: bytes
    # its Nats-Msg-Id is a digest of tenant and message id: two tenants never share one
    headers: Mapping[str, str]


class IngressAck(Struct, frozen=True, kw_only=True):
    """The answer to the sender; `timestamp_ms` is the time of writing. An id that is not known is
    empty.
    """

    status: Annotated[str, _STATUS]
    timestamp_ms: Annotated[int, _TIME, "milliseconds since the epoch"]
    message_id: Annotated[str, TEXT, "empty: it could not be read"] = ""
    correlation_id: Annotated[str, TEXT, _NO_CORRELATION] = ""
    message: Annotated[str | None, TEXT] = None
    error_code: Annotated[str | None, TEXT] = None
    metadata: Annotated[Mapping[str, str], refer("strings")] = NO_HEADERS


def read_body_of(data: bytes, limits: WorkerMessageLimits) -> Object:
    """The message as an object, JSON or protobuf. Raises Malformed when it is neither, or beyond
    the limits.
    """
    return read_body(data, INGRESS, limits.max_payload_bytes, limits.max_depth)


def read_ingress(body: Object, headers: Mapping[str, str]) -> IngressRequest:
    """Raises Malformed; `ids_of` then returns the ids that its IngressAck can name."""
    message_id = (
        field_readers.read_message_id(headers, body)
        if body.get("message_id") is None
        else field_readers.read_id(body, "message_id")
    )
    if message_id is None:
        raise missing_field("message_id", "message_id")
    tenant_id = field_readers.read_tenant(headers, body)
    if tenant_id is None:
        raise missing_field("tenant_id", "tenant_id")
    correlation_id = field_readers.read_id(body, "correlation_id")
    return IngressRequest(
        message_id=message_id,
        tenant_id=tenant_id,
        correlation_id=correlation_id,
        body=_request(body, message_id, tenant_id, correlation_id),
        headers=_headers(headers, body, message_id, tenant_id),
    )


def ids_of(body: Object) -> dict[str, str]:
    """The ids of a message that could not be taken, where they can be read."""
    names = {name: body.get(name) for name in ("message_id", "correlation_id")}
    return {
        name: value
        for name, value in names.items()
        if isinstance(value, str) and ids.is_opaque(value)
    }


def ack_bytes(ack: IngressAck) -> bytes:
    """The IngressAck in JSON: what protobuf would have empty is empty here too."""
    return orjson.dumps(_fields(ack))


def ack_protobuf(ack: IngressAck) -> bytes:
    """The IngressAck for `Accept: application/x-protobuf`."""
    return ingress_pb2.IngressAck(**_fields(ack)).SerializeToString()


def _request(body: Object, message_id: str, tenant_id: str, correlation_id: str | None) -> bytes:
    payload = body.get("payload")
    message: dict[str, object] = {
        "message_id": message_id,
        "tenant_id": tenant_id,
        "message_type": read_numbers(body, "message_type") or read_numbers(body, "type"),
        "payload": orjson.Fragment(payload.data) if isinstance(payload, RawJson) else payload,
        "payload_encoding": read_numbers(body, "payload_encoding"),
        "metadata": read_numbers(body, "metadata"),
        "timestamp_ms": field_readers.read_moment(
            body, "timestamp_ms" if body.get("timestamp_ms") is not None else "timestamp"
        ),
    }
    context = {"correlation_id": correlation_id} if correlation_id is not None else None
    return orjson.dumps(
        _present(
            {
                "message": _present(message),
                "policy_id": read_numbers(body, "policy_id"),
                "context": context,
            }
        )
    )


def _headers(
    headers: Mapping[str, str], body: Object, message_id: str, tenant_id: str
) -> dict[str, str]:
    digest = ids.sha256_hex(f"{tenant_id}\x00{message_id}".encode())
    named = {
        "trace_id": field_readers.read_trace(headers, body),
        "traceparent": traceparent_in(headers),
    }
    return {
        "Nats-Msg-Id": f"ingress:{digest}",
        "tenant_id": tenant_id,
        "version": "1",
        **{k: v for k, v in named.items() if v is not None},
    }


def _present(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


def _fields(ack: IngressAck) -> dict[str, Any]:
    fields = {
        name: value for name in ack.__struct_fields__ if (value := getattr(ack, name)) is not None
    }
    return {**fields, "metadata": dict(ack.metadata)}


def _from_protobuf(data: bytes) -> dict[str, Any]:
    sent = ingress_pb2.IngressMessage.FromString(data)
    payload, encoding = text_of(sent.payload)
    names = ("message_id", "correlation_id", "tenant_id", "trace_id", "message_type", "policy_id")
    return {
        **{name: getattr(sent, name) for name in names},
        "payload": payload or None,  # proto3 does not tell empty from absent
        "payload_encoding": encoding,
        "metadata": dict(sent.metadata),
        "timestamp_ms": sent.timestamp_ms or None,
    }


INGRESS = MessageType("ingress_message", ("message_id", "tenant_id"), _from_protobuf, PAYLOAD)


_PAGE = "docs/reference/contracts.md#ingress"
_FALSY: tuple[object, ...] = (None, "", 0, False, [], {})


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
        body=build_written(IngressAck),
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
