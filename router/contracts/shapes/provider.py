"""Providers: invoked through the router, and called by it
(docs/reference/extensions.md#invoke-request, docs/reference/extensions.md#provider-call).
"""

from __future__ import annotations

from typing import Any

import orjson

from router.contracts.codec import BASE64
from router.contracts.provider import (
    ERROR,
    SUCCESS,
    TIMEOUT,
    ProviderResponse,
    refuse,
    response_bytes,
)
from router.contracts.provider_call import ProviderAnswerWire, call_bytes
from router.contracts.provider_chunk import ChunkWire, StreamChunk, chunk_bytes
from router.contracts.provider_request import PROVIDER_REQUEST, ProviderRequest, request_bytes
from router.contracts.shapes.enveloped import build_worker_message
from router.contracts.shapes.message_shape import RECEIVED, SENT, MessageShape, ShapeLimits
from router.contracts.shapes.parts import (
    Schema,
    add_description,
    build_from_type,
    build_object,
    refer,
)
from router.contracts.shapes.precedence import NEVER, NULL, constrain, find_first, is_present

_INVOKE, _CALL = (
    "docs/reference/extensions.md#invoke-request",
    "docs/reference/extensions.md#provider-call",
)
_TEXT: Schema = {"type": "string"}
_ENCODING: Schema = {"const": BASE64, "description": "the text beside it is bytes in base64"}
_REQUEST = ProviderRequest(
    provider_id="echo",
    tenant_id="acme",
    request_id="m-1",
    trace_id="6f6ed2e6fc9641768999600d1afbd688",
    body="hello",
    parameters={"temperature": 0},
    metadata={"user_id": "u-1"},
)


def build_provider_request(_: ShapeLimits) -> MessageShape:
    prompt = {
        "if": is_present(("payload_encoding",), NULL),
        "then": {
            "allOf": [
                constrain(("payload_encoding",), {"const": BASE64}),
                _find_prompt(refer("base64")),
            ]
        },
        "else": _find_prompt(_TEXT),
    }
    fields: dict[str, Schema] = {
        "provider_id": add_description(refer("token"), "a provider of the registry"),
        "message_id": add_description(refer("optional_id"), "it is the response's request_id"),
        "body": {"description": "what the provider is asked, text"},
        "prompt": {"description": "as body, which goes before it"},
        "payload_encoding": {"description": f'"{BASE64}" where the body is bytes in base64'},
        "parameters": add_description(refer("object"), "for the provider"),
        "metadata": refer("object"),
        "context": add_description(refer("object"), "goes before metadata"),
        "timestamp_ms": {
            "description": "when it was asked, milliseconds since the epoch; for other readers"
        },
    }
    return MessageShape(
        name="provider-request",
        title="ProviderRequest",
        text="A provider invoked through the router: once, or as a stream.",
        direction=RECEIVED,
        body=build_worker_message(
            PROVIDER_REQUEST.envelope,
            build_object(fields, ("provider_id",), allOf=[prompt]),
            shared={"tenant_id": "scoped_id", "trace_id": "id"},
            required=("tenant_id",),
            versions=("version",),
        ),
        page=_INVOKE,
        examples=(
            orjson.loads(request_bytes(_REQUEST, 1_700_000_000_000)),
            {
                "provider_id": "echo",
                "tenant_id": "acme",
                "prompt": "aGVsbG8=",
                "payload_encoding": BASE64,
            },
        ),
        proto="beamline.provider.v1.ProviderRequest",
    )


def _find_prompt(schema: Schema) -> Schema:
    return find_first((("body",), ("prompt",)), schema, absent=NULL, otherwise=NEVER)


def build_provider_response(_: ShapeLimits) -> MessageShape:
    fields: dict[str, Schema] = {
        "request_id": _TEXT,
        "status": {"enum": [SUCCESS, ERROR, TIMEOUT]},
        "body": _TEXT,
        "payload_encoding": _ENCODING,
        "metadata": refer("strings"),
        "latency_ms": {"type": "integer", "minimum": 0, "description": "as the router measured it"},
        "cost": {
            "type": "number",
            "minimum": 0,
            "description": "as it was billed, of the last attempt; metadata.cost is that of all",
        },
        "error_code": _TEXT,
        "error_message": _TEXT,
        "timestamp_ms": {
            "type": "integer",
            "minimum": 0,
            "description": "milliseconds since the epoch",
        },
    }
    optional = {"payload_encoding", "error_code", "error_message"}
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
        body=build_object(fields, [name for name in fields if name not in optional]),
        page=_INVOKE,
        examples=tuple(
            {**orjson.loads(one), "timestamp_ms": 1_700_000_000_000} for one in examples
        ),
        proto="beamline.provider.v1.ProviderResponse",
    )


def build_provider_call(_: ShapeLimits) -> MessageShape:
    fields: dict[str, Schema] = {
        "trace_id": refer("id"),
        "tenant_id": refer("scoped_id"),
        "provider_id": refer("token"),
        "prompt": add_description(_TEXT, "what is asked"),
        "parameters": {"type": "object"},
        "context": {"type": "object"},
    }
    optional: dict[str, Schema] = {
        "payload_encoding": _ENCODING,
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
        page=_CALL,
        examples=(
            orjson.loads(call_bytes(_REQUEST, {})),
            orjson.loads(call_bytes(_REQUEST, {"model": "parrot"})),
        ),
    )


def build_provider_answer(_: ShapeLimits) -> MessageShape:
    figures = {
        "usage": (
            "prompt_tokens, completion_tokens, cached_tokens: whole numbers; one that is not "
            "legal is as if it were absent"
        ),
        "model": "which model answered; as metadata.model",
        "cost": (
            "in the currency of the policies, 0 or more; one that is not legal is as if it "
            "were absent"
        ),
    }
    body = build_from_type(ProviderAnswerWire)
    described = {
        name: add_description(body["properties"][name], text) for name, text in figures.items()
    }
    return MessageShape(
        name="provider-answer",
        title="ProviderAnswer",
        text=(
            "What a provider of the registry answers. Only output is required. provider_id, "
            "where it is there, is the provider's own."
        ),
        direction=RECEIVED,
        body={**body, "properties": {**body["properties"], **described}},
        page=_CALL,
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


def build_chunk(_: ShapeLimits) -> MessageShape:
    is_encoded = is_present(("payload_encoding",), NULL)
    encoding = {
        "allOf": [
            constrain(("payload_encoding",), {"const": BASE64}),
            constrain(("data",), refer("base64")),
        ]
    }
    return MessageShape(
        name="chunk",
        title="StreamChunk",
        text="One piece of a stream, from a provider to the router and from the router to its "
        "client. The last one is `done`; its metadata"
        " says how the stream ended: status, error_code, error_message, chunks.",
        direction=RECEIVED,
        body={**build_from_type(ChunkWire), "if": is_encoded, "then": encoding},
        page="docs/reference/extensions.md#stream",
        examples=_list_chunk_examples(),
        proto="beamline.provider.v1.StreamChunk",
    )


def _list_chunk_examples() -> tuple[Any, ...]:
    last = {"status": SUCCESS, "chunks": "2", "latency_ms": "12", "completion_tokens": "3"}
    chunks = (
        StreamChunk(request_id="m-1", data="you "),
        StreamChunk(request_id="m-1", data="said hello", done=True, metadata=last),
    )
    return (
        *(orjson.loads(chunk_bytes(chunk)) for chunk in chunks),
        {"data": "you ", "done": False},
    )
