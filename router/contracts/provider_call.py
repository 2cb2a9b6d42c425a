"""A custom provider as it is called, on `beamline.provider.{id}.{version}`
(docs/reference/extensions.md#provider-call). JSON both ways.

    request   {trace_id, tenant_id, provider_id, prompt, parameters, context, config?}
    answer    {provider_id?, output, usage{prompt_tokens?, completion_tokens?, cached_tokens?}?,
              model?, cost?, metadata?}

What an answer tells of its use stands in its metadata as text, as in those of a stream's last
chunk; a figure that is not legal is left out.

A stream is asked for with the header `Router-Stream: true`. A provider that streams answers with
chunks (`provider_chunk`), the last one `done`; one that does not answers once, as ever, and that is
a stream of one chunk. Each chunk should name a reply subject of the provider's own: when no reader
listens any more the server answers 503 there, and the provider may stop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import orjson
from msgspec import Meta, Raw, Struct

from router.contracts.codec import (
    MAX_DEPTH,
    MAX_PAYLOAD_BYTES,
    UNREADABLE_ERRORS,
    check_numbers,
    describe_unreadable,
    is_deeper,
)
from router.contracts.extension import DEADLINE, MAX_METADATA_BYTES, InvalidExtensionMessage
from router.contracts.provider import ENCODING, text_fields
from router.contracts.provider_chunk import StreamChunk, read_chunk, strings
from router.contracts.provider_request import EXAMPLE, ProviderRequest
from router.contracts.raw_json import check_text, write_payload
from router.contracts.shapes.message_shape import RECEIVED, SENT, MessageShape, ShapeLimits
from router.contracts.shapes.parts import Schema, build_from_type, build_object, refer
from router.contracts.told_usage import find_told
from router.core.errors import RouterError

STREAM_HEADER = "Router-Stream"


_DIGITS = 9  # a deadline is at most eleven days away


class ProviderAnswer(Struct, frozen=True, kw_only=True):
    """`body` is the output: as it is where it is text, else its JSON. `metadata` tells what was
    used (`told_usage`), the cost too.
    """

    body: str
    metadata: Mapping[str, str]
    cost: float = 0.0


def call_bytes(request: ProviderRequest, config: Mapping[str, object]) -> bytes:
    """What the provider is asked; `config` is its registry entry's."""
    body: dict[str, Any] = {
        "trace_id": request.trace_id,
        "tenant_id": request.tenant_id,
        "provider_id": request.provider_id,
        **text_fields("prompt", request.body),
        "parameters": request.written_parameters,
        "context": dict(request.metadata),
    }
    return write_payload({**body, "config": dict(config)} if config else body)


def call_headers(request: ProviderRequest) -> dict[str, str]:
    return {"version": "1", "trace_id": request.trace_id, "tenant_id": request.tenant_id}


def read_time_left(headers: Mapping[str, str]) -> float | None:
    """Seconds that the caller still waits, from its header; None: the header is absent or invalid."""
    value = headers.get(DEADLINE, "")
    return (
        int(value) / 1000 if value.isascii() and value.isdigit() and len(value) <= _DIGITS else None
    )


def read_answer(data: bytes, provider_id: str) -> ProviderAnswer:
    """The whole answer. Raises InvalidExtensionMessage."""
    _check(data)
    try:
        check_text(data)
        wire = _decode(data)
        check_numbers(data, wire.metadata)
    except (*UNREADABLE_ERRORS, ValueError) as exc:
        raise InvalidExtensionMessage(
            f"not a provider's answer: {describe_unreadable(data, exc)}"
        ) from exc
    if wire.provider_id not in (None, "", provider_id):
        raise InvalidExtensionMessage("the answer names another provider")
    metadata = strings(wire.metadata or {})
    if sum(len(name) + len(value) for name, value in metadata.items()) > MAX_METADATA_BYTES:
        raise InvalidExtensionMessage(
            f"the answer's metadata is larger than {MAX_METADATA_BYTES} bytes"
        )
    body = bytes(wire.output).decode()  # JSON goes on as it was written
    if body.startswith('"'):
        body = orjson.loads(body)
    else:
        metadata["content_type"] = "application/json"
    told = _find_told(wire)
    return ProviderAnswer(body=body, metadata={**metadata, **told}, cost=float(told.get("cost", 0)))


def read_piece(data: bytes, provider_id: str) -> StreamChunk:
    """One message of a provider that was asked for a stream: a chunk, or its only chunk. Raises
    InvalidExtensionMessage.
    """
    _check(data)
    try:
        return read_chunk(data)
    except RouterError:
        whole = read_answer(data, provider_id)
    return StreamChunk(data=whole.body, done=True, metadata=whole.metadata)


def _check(data: bytes) -> None:
    if len(data) > MAX_PAYLOAD_BYTES:
        raise InvalidExtensionMessage(
            f"the answer of {len(data)} bytes is larger than {MAX_PAYLOAD_BYTES}"
        )
    if data.count(b"{") + data.count(b"[") > MAX_DEPTH and is_deeper(data, MAX_DEPTH):
        raise InvalidExtensionMessage(f"the answer is nested deeper than {MAX_DEPTH}")


_USAGE = Meta(
    description="prompt_tokens, completion_tokens, cached_tokens: whole numbers; one that is not "
    "legal is as if it were absent"
)
_MODEL = Meta(description="which model answered; as metadata.model")
_COST = Meta(
    description="in the currency of the policies, 0 or more; one that is not legal is as if it "
    "were absent"
)


class ProviderAnswerWire(Struct):
    output: Raw  # any JSON value
    provider_id: str | None = None
    # of a figure any value is taken, for the work is done
    usage: Annotated[Any, _USAGE] = None
    model: Annotated[Any, _MODEL] = None
    cost: Annotated[Any, _COST] = None
    metadata: dict[str, Any] | None = None


def _find_told(wire: ProviderAnswerWire) -> dict[str, str]:
    usage = find_told(wire.usage) if isinstance(wire.usage, dict) else {}
    return {**usage, **find_told({"model": wire.model, "cost": wire.cost})}


_decode = msgspec.json.Decoder(ProviderAnswerWire).decode


_PAGE = "docs/reference/extensions.md#provider-call"


def build_provider_call(_: ShapeLimits) -> MessageShape:
    fields: dict[str, Schema] = {
        "trace_id": refer("id"),
        "tenant_id": refer("scoped_id"),
        "provider_id": refer("token"),
        "prompt": {"type": "string", "description": "what is asked"},
        "parameters": {"type": "object"},
        "context": {"type": "object"},
    }
    optional: dict[str, Schema] = {
        "payload_encoding": ENCODING,
        "config": {
            "type": "object",
            "description": "of the registry's entry; absent where it has none",
        },
    }
    return MessageShape(
        name="provider-call",
        title="ProviderCall",
        text=(
            "What the router asks a provider of the registry. The header `Router-Stream: true` "
            "asks for a stream."
        ),
        direction=SENT,
        body=build_object({**fields, **optional}, tuple(fields)),
        page=_PAGE,
        examples=(
            orjson.loads(call_bytes(EXAMPLE, {})),
            orjson.loads(call_bytes(EXAMPLE, {"model": "parrot"})),
        ),
    )


def build_provider_answer(_: ShapeLimits) -> MessageShape:
    return MessageShape(
        name="provider-answer",
        title="ProviderAnswer",
        text=(
            "What a provider of the registry answers. Only output is required. provider_id, "
            "where it is there, is the provider's own."
        ),
        direction=RECEIVED,
        body=build_from_type(ProviderAnswerWire),
        page=_PAGE,
        examples=(
            {
                "provider_id": "echo",
                "output": "you said hello",
                "usage": {"prompt_tokens": 1, "completion_tokens": 3, "cached_tokens": 0},
                "model": "parrot",
                "cost": 0.25,
                "metadata": {"source": "cache"},
            },
            {"output": {"text": "you said hello"}},
        ),
    )
