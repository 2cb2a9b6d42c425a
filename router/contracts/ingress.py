"""A message into the system and its IngressAck: `beamline.ingress.v1.message`
(docs/reference/contracts.md#ingress).

    IngressMessage   in JSON or protobuf: INGRESS_SPEC. `type` is `message_type`, `timestamp`
                     (ISO 8601) is `timestamp_ms`
    IngressAck       the answer: its Struct

This reads only what the IngressAck needs. The message becomes a decide request in form a
(docs/reference/contracts.md#decide-requests), whose reader checks the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import orjson
from msgspec import Struct

from router.contracts import field_kinds as kind
from router.contracts import field_readers
from router.contracts.codec import BASE64, text_of
from router.contracts.field_readers import Object, read_numbers
from router.contracts.headers import traceparent_in
from router.contracts.malformed import missing_field
from router.contracts.message_spec import Field, MessageSpec, build_reader, build_wire
from router.contracts.pb.beamline.ingress.v1 import ingress_pb2
from router.contracts.raw_json import PAYLOAD, RawJson
from router.contracts.shapes.enveloped import EnvelopeRules
from router.contracts.shapes.message_shape import SENT, MessageShape, ShapeLimits
from router.contracts.shapes.parts import (
    MOMENT,
    NEVER,
    NULL,
    TEXT,
    Path,
    Schema,
    build_written,
    constrain,
    find_first,
    is_present,
    refer,
)
from router.contracts.worker import Received, WorkerMessageLimits, read_body
from router.core import ids
from router.core.message import NO_HEADERS

INGRESS_SUBJECT = "beamline.ingress.v1.message"
ACCEPTED = "accepted"  # it stands in the decide stream
REJECTED = "rejected"  # these bytes will never be taken
ERROR = "error"  # unknown outcome: the same message may be sent again, and is decided once
_STATUS: Schema = {"enum": [ACCEPTED, REJECTED, ERROR]}
_TIME: Schema = {"type": "integer"}
_NO_CORRELATION = "empty: the message has none, or it could not be read"


class IngressFields(Struct, frozen=True, kw_only=True):
    """A message as it was sent. What is any JSON value here, the decide request's reader checks."""

    message_id: str
    tenant_id: str
    correlation_id: str | None
    message_type: object
    payload: object
    payload_encoding: object
    metadata: object
    timestamp_ms: int | None
    policy_id: object
    trace_id: str | None


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
    sent = _read(Received(body, headers))
    return IngressRequest(
        message_id=sent.message_id,
        tenant_id=sent.tenant_id,
        correlation_id=sent.correlation_id,
        body=_request(sent),
        headers=_headers(sent, traceparent_in(headers)),
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


def _request(sent: IngressFields) -> bytes:
    message = {name: value for name in _IN_MESSAGE if (value := getattr(sent, name)) is not None}
    if isinstance(sent.payload, RawJson):
        message["payload"] = orjson.Fragment(sent.payload.data)
    context = {"correlation_id": sent.correlation_id} if sent.correlation_id is not None else None
    request = {"message": message, "policy_id": sent.policy_id, "context": context}
    return orjson.dumps(_present(request))


def _headers(sent: IngressFields, traceparent: str | None) -> dict[str, str]:
    digest = ids.sha256_hex(f"{sent.tenant_id}\x00{sent.message_id}".encode())
    named = {"trace_id": sent.trace_id, "traceparent": traceparent}
    return {
        "Nats-Msg-Id": f"ingress:{digest}",
        "tenant_id": sent.tenant_id,
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


_PAGE = "docs/reference/contracts.md#ingress"
_FALSY: tuple[object, ...] = (None, "", 0, False, [], {})
# Where the others stand in a decide request is its form's to say.
_BESIDE = frozenset({"correlation_id", "policy_id", "trace_id"})
_IN_MESSAGE = [name for name in IngressFields.__struct_fields__ if name not in _BESIDE]


def _read_message_id(sent: Received, name: str) -> str:
    """Else the message's id as other messages have it."""
    message_id = (
        kind.read_message_id(sent, "msg_id")
        if sent.body.get(name) is None
        else field_readers.read_id(sent.body, name)
    )
    if message_id is None:
        raise missing_field(name, name)
    return message_id


def _find_payload(body: Object, name: str) -> object:
    """It is the sender's: it goes on as it was written."""
    return body.get(name)


def _read_message_type(body: Object, name: str) -> object:
    return read_numbers(body, name) or read_numbers(body, "type")


def _read_timestamp(body: Object, name: str) -> int | None:
    return field_readers.read_moment(body, name if body.get(name) is not None else "timestamp")


def _unpack_text(payload: bytes) -> str | None:
    """proto3 does not tell empty from absent."""
    return text_of(payload)[0] or None


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


_ID = kind.FieldKind({}, _read_message_id)
_TYPE = kind.build_kind({}, _read_message_type)
_PAYLOAD = kind.build_kind({}, _find_payload)
_ENCODING = kind.build_kind({}, read_numbers)
_METADATA = kind.build_kind(refer("object"), read_numbers)
_MOMENT = kind.build_kind(MOMENT, _read_timestamp)
_POLICY = kind.build_kind(refer("optional_scoped_id"), read_numbers)
_IS_BASE64 = f'"{BASE64}" where the payload is bytes in base64'
_MADE = "milliseconds since the epoch, or ISO 8601 in UTC"

INGRESS_SPEC = MessageSpec(
    name="ingress",
    title="IngressMessage",
    text=(
        "A message that becomes a decide request. Its sender gets an IngressAck; the "
        "decision goes to the reply subject."
    ),
    page=_PAGE,
    made=IngressFields,
    fields=(
        Field("message_id", _ID, "the message's id; the same message is decided once"),
        Field("message_type", _TYPE, "the type of the message, 1..256 characters"),
        Field("type", kind.ANY, "as message_type, which goes before it"),
        Field("payload", _PAYLOAD, "any JSON value but null", unpack=_unpack_text),
        Field(
            "payload_encoding",
            _ENCODING,
            _IS_BASE64,
            path="payload",
            unpack=lambda payload: text_of(payload)[1],
        ),
        Field("correlation_id", kind.OPTIONAL_ID),
        Field("metadata", _METADATA, unpack=dict),
        Field("timestamp_ms", _MOMENT, _MADE, unpack=lambda told: told or None),
        Field("timestamp", kind.ANY, "as timestamp_ms, which goes before it"),
        Field("policy_id", _POLICY),
    ),
    derived=(Field("tenant_id", kind.REQUIRED_TENANT),),
    envelope="ingress_message",
    beside=EnvelopeRules(
        shared={"tenant_id": "scoped_id", "trace_id": "id"},
        required=("tenant_id",),
        versions=(),
        bare=[_build_message_id((), (("msg_id",),))],
        enveloped=[_build_message_id(("data",), (("msg_id",), ("data", "msg_id")))],
    ),
    proto=ingress_pb2.IngressMessage,
    known_by=("message_id", "tenant_id"),
    kept=PAYLOAD,
    rules=(_require(("message_type",), ("type",)), *_list_payload_rules(), _build_time()),
    examples=(
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
    ),
)
INGRESS = build_wire(INGRESS_SPEC)
_read = build_reader(INGRESS_SPEC)


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
