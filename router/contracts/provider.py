"""What an invocation came to: one response (docs/reference/extensions.md#invoke-request), JSON or
protobuf.

    {request_id, status, body, metadata, latency_ms, cost, error_code?, error_message?,
    timestamp_ms}

JSON unless the request says `Accept: application/x-protobuf`, as everywhere; errors stand inside,
never in its place. The request is `provider_request`'s, a stream's pieces are `provider_chunk`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import orjson
from msgspec import Struct

from router.contracts.codec import (
    BASE64,
    UNREADABLE_ERRORS,
    bytes_of,
    describe_unreadable,
    text_of,
    value_of,
)
from router.contracts.decision import NO_METADATA
from router.contracts.pb.beamline.provider.v1 import provider_pb2
from router.contracts.shapes.message_shape import SENT, MessageShape, ShapeLimits
from router.contracts.shapes.parts import TEXT, WHOLE, Schema, build_written, refer
from router.core.clock import now_ms
from router.core.errors import RouterError

INVOKE = "beamline.provider.v1.invoke"
INVOKE_STREAM = f"{INVOKE}.stream"
PROTOBUF = "application/x-protobuf"

SUCCESS = "success"
ERROR = "error"
TIMEOUT = "timeout"
_STATUS: Schema = {"enum": [SUCCESS, ERROR, TIMEOUT]}
_COST: Schema = {"type": "number", "minimum": 0}
_BILLED = "as it was billed, of the last attempt; metadata.cost is that of all"


class ProviderResponse(Struct, frozen=True, kw_only=True):
    """What came of it. `metadata` is all strings and has what the provider told of its use
    (`told_usage`): model, tokens, cost.
    """

    request_id: Annotated[str, TEXT]
    status: Annotated[str, _STATUS]
    body: Annotated[str | bytes, TEXT] = ""
    metadata: Annotated[Mapping[str, str], refer("strings")] = NO_METADATA
    latency_ms: Annotated[int, WHOLE, "as the router measured it"] = 0
    cost: Annotated[float, _COST, _BILLED] = 0.0
    # invalid_request, unauthorized, overloaded, budget_exceeded, internal, or one of the
    # extensions' four
    error_code: Annotated[str | None, TEXT] = None
    error_message: Annotated[str | None, TEXT] = None
    timestamp_ms: Annotated[int, WHOLE, "milliseconds since the epoch"] = 0

    @property
    def ok(self) -> bool:
        return self.status == SUCCESS


def is_protobuf_wanted(headers: Mapping[str, str]) -> bool:
    return headers.get("Accept") == PROTOBUF


def response_bytes(response: ProviderResponse, *, protobuf: bool = False) -> bytes:
    """On the wire; what is absent is left out."""
    fields = {
        name: value
        for name in response.__struct_fields__
        if (value := getattr(response, name)) is not None
    }
    if not protobuf:
        return orjson.dumps(
            {**fields, "metadata": dict(response.metadata), **text_fields("body", response.body)}
        )
    body = response.body if isinstance(response.body, bytes) else response.body.encode()
    return provider_pb2.ProviderResponse(
        **{**fields, "body": body, "metadata": dict(response.metadata)}
    ).SerializeToString()


def refuse(
    request_id: str,
    code: str,
    message: str,
    *,
    status: str = ERROR,
    metadata: Mapping[str, str] = NO_METADATA,
    latency_ms: float = 0.0,
) -> ProviderResponse:
    return ProviderResponse(
        request_id=request_id,
        status=status,
        metadata=metadata,
        latency_ms=round(latency_ms),
        error_code=code,
        error_message=message,
        timestamp_ms=now_ms(),
    )


def read_response(data: bytes) -> ProviderResponse:
    """A JSON response, for who asked. Raises RouterError when these bytes are none."""
    try:
        wire = _decode(data)
        return msgspec.structs.replace(
            wire.response(), body=text_or_bytes(wire.body, wire.payload_encoding)
        )
    except (*UNREADABLE_ERRORS, ValueError) as exc:
        raise RouterError(
            f"what came back is not a provider's response: {describe_unreadable(data, exc)}"
        ) from exc


def text_fields(name: str, value: str | bytes) -> dict[str, str]:
    """Text or bytes in JSON: `payload_encoding` stands beside bytes that are not UTF-8."""
    if isinstance(value, str):
        return {name: value}
    text, encoding = text_of(value)
    return {name: text} if encoding is None else {name: text, "payload_encoding": encoding}


def text_or_bytes(text: str | None, payload_encoding: str | None) -> str | bytes:
    """The inverse of `text_fields`. Raises ValueError, for None as well: no text."""
    if text is None:
        raise ValueError("no text")
    return text if payload_encoding is None else value_of(bytes_of(text, payload_encoding))


class ProviderResponseWire(ProviderResponse, frozen=True, kw_only=True):
    """A response as JSON has it: the body is text, and bytes are encoded."""

    body: str = ""
    payload_encoding: str | None = None

    def response(self) -> ProviderResponse:
        return ProviderResponse(
            **{name: getattr(self, name) for name in ProviderResponse.__struct_fields__}
        )


_decode = msgspec.json.Decoder(ProviderResponseWire).decode


ENCODING: Schema = {"const": BASE64, "description": "the text beside it is bytes in base64"}


def build_provider_response(_: ShapeLimits) -> MessageShape:
    response = ProviderResponse(
        request_id="m-1",
        status=SUCCESS,
        body="you said hello",
        metadata={"model": "parrot", "prompt_tokens": "1"},
        latency_ms=12,
        cost=0.25,
        timestamp_ms=1_700_000_000_000,
    )
    refused = refuse(
        "m-1",
        "extension_timeout",
        "The provider did not answer in time",
        status=TIMEOUT,
        latency_ms=2000,
    )
    examples = (response_bytes(response), response_bytes(refused))
    return MessageShape(
        name="provider-response",
        title="ProviderResponse",
        text="What an invocation came to. An error stands inside it, never in its place.",
        direction=SENT,
        body=_build_body(),
        page="docs/reference/extensions.md#invoke-request",
        examples=tuple(
            {**orjson.loads(example), "timestamp_ms": 1_700_000_000_000} for example in examples
        ),
        proto="beamline.provider.v1.ProviderResponse",
    )


def _build_body() -> dict[str, Any]:
    """As its Struct says; beside the body stands how it is encoded."""
    written = build_written(ProviderResponse)
    fields: dict[str, Schema] = {}
    for name, schema in written["properties"].items():
        fields[name] = schema
        if name == "body":
            fields["payload_encoding"] = ENCODING
    return {**written, "properties": fields}
