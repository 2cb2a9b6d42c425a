"""A provider invoked through the router: the request (docs/reference/extensions.md#invoke-request).

    {provider_id, tenant_id, body, message_id?, trace_id?, parameters?, metadata?}, or protobuf
    ProviderRequest

The router serves the subject: it looks the provider up in the registry and calls it on its own
subject, whose shapes are `provider_call`'s. `prompt` and `context` of those shapes are read here as
well, as `body` and `metadata`: the specification leaves the payload to the provider. A header wins
over the field of its name (docs/reference/contracts.md#fields).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import orjson
from msgspec import Struct

from router.contracts import content, field_readers
from router.contracts import field_kinds as kind
from router.contracts.codec import BASE64, MAX_DEPTH, MAX_PAYLOAD_BYTES, value_of
from router.contracts.content import TRACE_FIELDS
from router.contracts.decision import NOTHING
from router.contracts.extension import MAX_METADATA_BYTES
from router.contracts.field_readers import Object
from router.contracts.headers import MESSAGE_ID, is_supported_version
from router.contracts.malformed import (
    PAYLOAD_TOO_LARGE,
    STAGE_SIZE,
    STAGE_VERSION,
    VERSION_UNSUPPORTED,
    Malformed,
    invalid_field,
    missing_field,
)
from router.contracts.message_spec import Field, MessageSpec, build_reader, build_wire
from router.contracts.pb.beamline.provider.v1 import provider_pb2
from router.contracts.provider import is_protobuf_wanted, text_fields, text_or_bytes
from router.contracts.raw_json import DIGITS, RawJson, has_endless_number, write_payload
from router.contracts.shapes.enveloped import EnvelopeRules
from router.contracts.shapes.parts import (
    NEVER,
    NULL,
    Schema,
    constrain,
    find_first,
    is_present,
    refer,
)
from router.contracts.worker import Received, read_body
from router.core import ids


class ProviderRequest(Struct, frozen=True, kw_only=True):
    """One invocation. `body`: what the provider is asked, text where it is UTF-8."""

    tenant_id: str
    request_id: str  # its `message_id`, else its Nats-Msg-Id, else one of ours
    provider_id: str
    trace_id: str
    body: str | bytes = ""
    parameters: Mapping[str, object] = NOTHING
    # as they were written; None: `parameters` are all there is
    raw_parameters: RawJson | None = None
    metadata: Mapping[str, object] = NOTHING
    wants_protobuf: bool = False
    has_own_id: bool = False  # the asker chose it, so it may ask for the same again

    def digest(self) -> str:
        """Equal for requests that ask for the same, whatever their trace and order of keys
        (docs/reference/contracts.md#same-request).
        """
        asked = {
            "provider_id": self.provider_id,
            **text_fields("body", self.body),
            "parameters": self.written_parameters,
            "metadata": {
                name: value for name, value in self.metadata.items() if name not in TRACE_FIELDS
            },
        }
        return content.digest(write_payload(asked))

    @property
    def written_parameters(self) -> RawJson | dict[str, object]:
        """What goes on to the provider."""
        return dict(self.parameters) if self.raw_parameters is None else self.raw_parameters


def read_request(
    data: bytes,
    headers: Mapping[str, str],
    max_bytes: int = MAX_PAYLOAD_BYTES,
    max_depth: int = MAX_DEPTH,
) -> ProviderRequest:
    """The invocation in these bytes. Raises Malformed, which names the field."""
    body = read_body(data, PROVIDER_REQUEST, max_bytes, max_depth)
    version = headers.get("version") or body.get("version")
    if version is not None and not is_supported_version(version):
        raise Malformed(
            VERSION_UNSUPPORTED,
            'Unsupported version: this subject speaks "1"',
            STAGE_VERSION,
            "version",
        )
    return _read(Received(body, headers))


def request_bytes(request: ProviderRequest, timestamp_ms: int) -> bytes:
    """An invocation as JSON, for who asks, and when: no router reads that."""
    return write_payload(
        {
            "provider_id": request.provider_id,
            "tenant_id": request.tenant_id,
            "message_id": request.request_id,
            "trace_id": request.trace_id,
            **text_fields("body", request.body),
            "parameters": request.written_parameters,
            "metadata": dict(request.metadata),
            "timestamp_ms": timestamp_ms,
        }
    )


def _read_request_id(sent: Received, _: str) -> str:
    own_id = field_readers.read_id(sent.body, "message_id")
    return own_id or _find_header_id(sent) or str(uuid.uuid4())


def _has_own_id(sent: Received, _: str) -> bool:
    return bool(sent.body.get("message_id") or _find_header_id(sent))


def _find_header_id(sent: Received) -> str | None:
    value = sent.headers.get(MESSAGE_ID)
    return value if value and ids.is_opaque(value) else None


def _read_trace(sent: Received, name: str) -> str:
    return kind.read_trace(sent, name) or uuid.uuid4().hex


def _is_protobuf_wanted(sent: Received, _: str) -> bool:
    return is_protobuf_wanted(sent.headers)


def _read_provider_id(body: Object, name: str) -> str:
    value = field_readers.read_text(body, name)
    if value is None:
        raise missing_field(name, name)
    if not ids.is_token(value):
        raise invalid_field(name, name, "1..64 of A-Z a-z 0-9 _ -")
    return value


def _read_prompt(body: Object, name: str) -> str | bytes:
    place = name if body.get(name) is not None else "prompt"
    value = body.get(place)
    if isinstance(value, bytes):
        return value_of(value)
    if value is None:
        raise missing_field(name, name)
    try:
        return text_or_bytes(
            value if isinstance(value, str) else None, body.get("payload_encoding")
        )
    except ValueError:
        legal = "text, or base64 where payload_encoding says so"
        raise invalid_field(place, place, legal) from None


def _read_object(body: Object, name: str) -> Mapping[str, Any]:
    written = body.get(name)
    value = _read_raw(written) if name == "parameters" else field_readers.read_numbers(body, name)
    if value is None:
        return NOTHING
    if type(value) is not dict:
        raise invalid_field(name, name, "an object")
    if (
        len(written.data if isinstance(written, RawJson) else orjson.dumps(value))
        > MAX_METADATA_BYTES
    ):
        raise Malformed(
            PAYLOAD_TOO_LARGE,
            f"Field too large: {name} is above {MAX_METADATA_BYTES} bytes",
            STAGE_SIZE,
            name,
        )
    return value


def _read_raw(written: object) -> object:
    """They are the provider's, as a payload is: numbers of any length stay."""
    if not isinstance(written, RawJson):
        return written
    if has_endless_number(written.data):
        raise invalid_field("parameters", "parameters", DIGITS)
    return written.read()


def _find_raw(body: Object, _: str) -> RawJson | None:
    written = body.get("parameters")
    return written if isinstance(written, RawJson) else None


def _read_metadata(body: Object, name: str) -> Mapping[str, Any]:
    return {**_read_object(body, name), **_read_object(body, "context")}


EXAMPLE = ProviderRequest(
    provider_id="echo",
    tenant_id="acme",
    request_id="m-1",
    trace_id="6f6ed2e6fc9641768999600d1afbd688",
    body="hello",
    parameters={"temperature": 0},
    metadata={"user_id": "u-1"},
)


def _find_prompt(schema: Schema) -> Schema:
    return find_first((("body",), ("prompt",)), schema, absent=NULL, otherwise=NEVER)


_PROMPT_RULE: Schema = {
    "if": is_present(("payload_encoding",), NULL),
    "then": {
        "allOf": [
            constrain(("payload_encoding",), {"const": BASE64}),
            _find_prompt(refer("base64")),
        ]
    },
    "else": _find_prompt({"type": "string"}),
}
_PROVIDER = kind.build_kind(refer("token"), _read_provider_id)
_PROMPT = kind.build_kind({}, _read_prompt)
_PARAMETERS = kind.build_kind(refer("object"), _read_object)
_METADATA = kind.build_kind(refer("object"), _read_metadata)
_OWN_ID = kind.FieldKind(refer("optional_id"))
_CONTEXT = kind.FieldKind(refer("object"))
_ASKED_AT = "when it was asked, milliseconds since the epoch; for other readers"
_ENCODING = f'"{BASE64}" where the body is bytes in base64'
_ENCODED = {"prompt": "aGVsbG8=", "payload_encoding": BASE64}

PROVIDER_REQUEST_SPEC = MessageSpec(
    name="provider-request",
    title="ProviderRequest",
    text="A provider invoked through the router: once, or as a stream.",
    page="docs/reference/extensions.md#invoke-request",
    made=ProviderRequest,
    fields=(
        Field("provider_id", _PROVIDER, "a provider of the registry", is_required=True),
        Field("message_id", _OWN_ID, "it is the response's request_id", path="message_id"),
        Field("body", _PROMPT, "what the provider is asked, text"),
        Field("prompt", kind.ANY, "as body, which goes before it"),
        Field("payload_encoding", kind.ANY, _ENCODING),
        Field("parameters", _PARAMETERS, "for the provider", unpack=dict),
        Field("metadata", _METADATA, unpack=dict),
        Field("context", _CONTEXT, "goes before metadata"),
        Field("timestamp_ms", kind.ANY, _ASKED_AT),
    ),
    derived=(
        Field("tenant_id", kind.REQUIRED_TENANT),
        Field("request_id", kind.FieldKind({}, _read_request_id)),
        Field("trace_id", kind.FieldKind({}, _read_trace)),
        Field("raw_parameters", kind.build_kind({}, _find_raw)),
        Field("wants_protobuf", kind.FieldKind({}, _is_protobuf_wanted)),
        Field("has_own_id", kind.FieldKind({}, _has_own_id)),
    ),
    envelope="provider_request",
    beside=EnvelopeRules(
        shared={"tenant_id": "scoped_id", "trace_id": "id"},
        required=("tenant_id",),
        versions=("version",),
    ),
    proto=provider_pb2.ProviderRequest,
    known_by=("provider_id", "tenant_id"),
    kept=frozenset({"parameters"}),
    rules=(_PROMPT_RULE,),
    examples=(
        orjson.loads(request_bytes(EXAMPLE, 1_700_000_000_000)),
        {"provider_id": "echo", "tenant_id": "acme", **_ENCODED},
    ),
)
PROVIDER_REQUEST = build_wire(PROVIDER_REQUEST_SPEC)
_read = build_reader(PROVIDER_REQUEST_SPEC)
