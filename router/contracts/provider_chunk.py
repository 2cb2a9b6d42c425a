"""One piece of a streamed response (docs/reference/extensions.md#stream): `{request_id, data, done,
metadata}`, or protobuf StreamChunk.

Every chunk but the last has `done: false`. The last one may carry data too, and its metadata says
how the stream ended, since a chunk has no other place for it:

    status                          success | error | timeout
    error_code, error_message       where it is not success; the codes of a ProviderResponse
    fault                           of an extension_error: request, service or answer; a provider
                                    says `request` for a 4xx
    chunks                          how many there were with this one: who heard fewer has lost some
    latency_ms, cost, *_tokens      what a ProviderResponse would say; model, cost and tokens may
                                    stand in any chunk, for the whole so far

All of metadata is strings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import orjson
from msgspec import Struct

from router.contracts.codec import (
    BASE64,
    MAX_DEPTH,
    UNREADABLE_ERRORS,
    check_numbers,
    describe_unreadable,
    is_deeper,
)
from router.contracts.pb.beamline.provider.v1 import provider_pb2
from router.contracts.provider import SUCCESS, ProviderResponse, text_fields, text_or_bytes
from router.contracts.shapes.message_shape import RECEIVED, MessageShape, ShapeLimits
from router.contracts.shapes.parts import NULL, build_from_type, constrain, is_present, refer
from router.core.errors import RouterError


class StreamChunk(Struct, frozen=True, kw_only=True):
    """`data`: text where it is UTF-8."""

    request_id: str = ""
    data: str | bytes = ""
    done: bool = False
    metadata: Mapping[str, str] = {}

    @property
    def failed(self) -> bool:
        """Whether the stream ends here, and not well."""
        return self.done and self.metadata.get("status", SUCCESS) != SUCCESS


def last_chunk(response: ProviderResponse) -> StreamChunk:
    """A stream that ends before it began, as its only chunk."""
    told = {
        "status": response.status,
        "error_code": response.error_code,
        "error_message": response.error_message,
        "chunks": "1",
    }
    return StreamChunk(
        request_id=response.request_id, done=True, metadata=strings({**response.metadata, **told})
    )


def chunk_bytes(chunk: StreamChunk, *, protobuf: bool = False) -> bytes:
    if protobuf:
        data = chunk.data if isinstance(chunk.data, bytes) else chunk.data.encode()
        sent = provider_pb2.StreamChunk(
            request_id=chunk.request_id, data=data, done=chunk.done, metadata=chunk.metadata
        )
        return sent.SerializeToString()
    told = {"done": chunk.done, "metadata": dict(chunk.metadata)}
    return orjson.dumps({"request_id": chunk.request_id, **text_fields("data", chunk.data), **told})


def read_chunk(data: bytes) -> StreamChunk:
    """A JSON chunk. Raises RouterError when these bytes are none; metadata that is not text becomes
    its JSON.
    """
    if is_deeper(data, MAX_DEPTH):  # it could be read, and its metadata never be written
        raise RouterError(
            f"what came is not a chunk of a stream: it is nested deeper than {MAX_DEPTH}"
        )
    try:
        wire = _decode(data)
        check_numbers(data, wire)
        return StreamChunk(
            request_id=wire.request_id,
            data=text_or_bytes(wire.data, wire.payload_encoding),
            done=wire.done,
            metadata=strings(wire.metadata),
        )
    except (*UNREADABLE_ERRORS, ValueError) as exc:
        raise RouterError(
            f"what came is not a chunk of a stream: {describe_unreadable(data, exc)}"
        ) from exc


def strings(metadata: Mapping[str, object]) -> dict[str, str]:
    """Metadata as the specification has it: text to text. What is absent is left out."""
    return {
        name: value if isinstance(value, str) else orjson.dumps(value).decode()
        for name, value in metadata.items()
        if value is not None
    }


class ChunkWire(Struct):
    done: bool
    request_id: str = ""
    data: str = ""
    payload_encoding: str | None = None
    metadata: dict[str, Any] = {}


_decode = msgspec.json.Decoder(ChunkWire).decode


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
