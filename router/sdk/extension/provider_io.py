"""The same two steps for providers: what one is given, and its output as bytes
(docs/reference/extensions.md#provider-call).

    {trace_id, tenant_id, provider_id, prompt, parameters, context, config?}  ->  {provider_id, output, usage, model?, cost?, metadata}

A stream's pieces and what its last chunk says are here too; how pieces travel is
`delivery.wire.calls.stream`' business.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace

from router.contracts.codec import bytes_of, value_of
from router.contracts.malformed import Malformed
from router.contracts.provider import ERROR
from router.contracts.provider_chunk import StreamChunk, chunk_bytes, strings
from router.contracts.raw_json import RawJson, has_endless_number, read_around_payload
from router.contracts.told_usage import MAX_COST, MAX_TOKENS
from router.core.ids import is_opaque, is_token
from router.extensions.model.failure import find_fault
from router.sdk.extension.request import (
    MAX_REQUEST_BYTES,
    NO_HEADERS,
    NOTHING,
    RequestFailed,
    check_size,
    refuse,
    tenant,
    trace,
)
from router.sdk.extension.response import check_metadata, encode, raise_invalid, require_fit

_PARAMETERS = frozenset({"parameters"})  # numbers of any length, as in a payload


class Invocation(Struct, frozen=True, kw_only=True):
    """The request to a provider. In tests: `Invocation.from_prompt("a prompt", parameters={...})`."""

    provider_id: str
    tenant_id: str
    trace_id: str = ""
    prompt: str | bytes
    parameters: Mapping[str, Any] = NOTHING
    context: Mapping[str, Any] = NOTHING
    config: Mapping[str, Any] = NOTHING
    headers: Mapping[str, str] = NO_HEADERS

    @classmethod
    def from_prompt(
        cls, prompt: str | bytes, *, provider_id: str = "mine", tenant_id: str = "acme", **rest: Any
    ) -> Self:
        return cls(
            provider_id=provider_id,
            tenant_id=tenant_id,
            prompt=prompt,
            **{"trace_id": "t-1", **rest},
        )


class Usage(Struct, frozen=True, kw_only=True):
    """What a provider has used so far. A streaming provider may yield it at any time, as soon as it
    knows its model and its input:

    a stream that is cut is billed by what was told by then, and by an estimate of what came after
    it.
    """

    model: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    # the part of prompt_tokens that came from the provider's cache
    cached_tokens: int | None = None
    cost: float | None = None  # in the currency of the policies

    @property
    def usage(self) -> dict[str, int]:
        names = ("prompt_tokens", "completion_tokens", "cached_tokens")
        return {name: count for name in names if (count := getattr(self, name)) is not None}

    @property
    def told(self) -> dict[str, object]:
        """Return what stands in the metadata of a chunk."""
        return {"model": self.model, **self.usage, "cost": self.cost}


class Output(Usage, frozen=True, kw_only=True):
    """A provider's answer, and what the whole of it used. `output`: text, or any JSON value.

    The last thing that a streaming provider yields may be one: its output is the last piece.
    """

    output: object = ""
    metadata: Mapping[str, object] = NOTHING


def read_invocation(data: bytes, headers: Mapping[str, str]) -> Invocation:
    """Read the invocation. Raises RequestFailed: 413 when it is too large, else 400."""
    check_size(data)
    try:
        body = read_around_payload(data, MAX_REQUEST_BYTES, kept=_PARAMETERS)
    except Malformed as exc:
        raise RequestFailed(400, "invalid_request", f"Invalid request: {exc}") from None
    provider_id = body.get("provider_id")
    if type(provider_id) is not str or not is_token(provider_id):
        refuse("provider_id", "1..64 of A-Z a-z 0-9 _ -")
    return Invocation(
        provider_id=provider_id,
        tenant_id=tenant(body.get("tenant_id")),
        trace_id=trace(body.get("trace_id")),
        prompt=_prompt(body),
        parameters=_part(body, "parameters"),
        context=_part(body, "context"),
        config=_part(body, "config"),
        headers=headers,
    )


def _part(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = body.get(name)
    if isinstance(part, RawJson) and not has_endless_number(part.data):
        part = part.read()
    if part is None:
        return NOTHING
    if type(part) is not dict:
        refuse(name, "an object")
    return part


def _prompt(body: Mapping[str, Any]) -> str | bytes:
    prompt, encoding = body.get("prompt"), body.get("payload_encoding")
    if type(prompt) is not str:
        refuse("prompt", "text")
    try:
        return prompt if encoding is None else value_of(bytes_of(prompt, encoding))
    except ValueError:
        refuse("prompt", "base64, as payload_encoding says")


def encode_output(invocation: Invocation, value: object) -> bytes:
    """The whole answer, which is one JSON object."""
    made = check_output(value if isinstance(value, Output) else Output(output=value))
    answer: dict[str, object] = {
        "provider_id": invocation.provider_id,
        "output": made.output,
        "usage": made.usage,
    }
    answer |= {
        name: value
        for name, value in (("model", made.model), ("cost", made.cost))
        if value is not None
    }
    return encode({**answer, "metadata": check_metadata(made.metadata, "metadata")})


def check_output(made: Output) -> Output:
    """Raises RequestFailed 422 for figures that cannot be billed."""
    if made.output is None:
        raise_invalid("output", "a provider returns text, a JSON value or an Output, not None")
    check_usage(made)
    return made


def check_usage(made: Usage) -> None:
    """Raises RequestFailed 422: what the router would leave out, its author should hear of."""
    if not all(type(count) is int and 0 <= count <= MAX_TOKENS for count in made.usage.values()):
        raise_invalid("usage", f"tokens should be whole numbers, from 0 to {MAX_TOKENS}")
    if (made.cached_tokens or 0) > (made.prompt_tokens or 0):
        raise_invalid("cached_tokens", "should be a part of prompt_tokens")
    if made.cost is not None and not (
        type(made.cost) in (int, float) and 0 <= made.cost <= MAX_COST
    ):
        raise_invalid("cost", f"should be a number, from 0 to {MAX_COST:.0f}")
    if made.model is not None and not (isinstance(made.model, str) and is_opaque(made.model)):
        raise_invalid("model", "should be 1..128 printable characters of ASCII without a space")


def piece_of(yielded: object) -> bytes:
    """One piece of a stream; of a `Usage`, a chunk without data."""
    if isinstance(yielded, Usage):
        check_usage(yielded)
        return chunk_bytes(StreamChunk(metadata=strings(yielded.told)))
    if not isinstance(yielded, str | bytes):
        raise_invalid(
            "data",
            (
                "a streaming provider yields text, bytes or Usage, and an Output as the last, "
                f"not {type(yielded).__name__}"
            ),
        )
    return require_fit(chunk_bytes(StreamChunk(data=yielded)))


def last_piece(made: Output) -> bytes:
    """The piece that ends a stream, with what it cost."""
    made = check_output(made)
    if not isinstance(made.output, str):
        raise_invalid("output", "the last piece of a stream should be text")
    fields = {**check_metadata(made.metadata, "metadata"), **made.told}
    return require_fit(
        chunk_bytes(StreamChunk(data=made.output, done=True, metadata=strings(fields)))
    )


def broken_piece(failed: RequestFailed) -> bytes:
    """The piece that ends a stream which has failed."""
    fields = {
        "status": ERROR,
        "error_code": failed.code,
        "error_message": str(failed),
        "fault": find_fault(failed.status, failed.fault),
    }
    if failed.retry_after_ms is not None:
        fields["retry_after_ms"] = str(failed.retry_after_ms)
    return chunk_bytes(StreamChunk(done=True, metadata=fields))


def join_pieces(pieces: list[object]) -> Output:
    """Join everything that a streaming provider yielded, for a caller that wants one answer."""
    piece = pieces[-1] if pieces else None
    last = piece if isinstance(piece, Output) else Output()
    told = [piece for piece in pieces if isinstance(piece, Usage)]
    texts = [piece for piece in pieces if type(piece) is not Usage and piece is not last]
    if not texts:  # it has streamed nothing: its output may be any JSON value
        return replace(last, **_join_figures(told))
    if not all(isinstance(text, str) for text in (*texts, last.output)):
        raise_invalid("output", "a stream of bytes has to be asked for as a stream")
    return replace(last, output="".join(map(str, (*texts, last.output))), **_join_figures(told))


def _join_figures(told: list[Usage]) -> dict[str, Any]:
    """The last word on each figure."""
    joined: dict[str, Any] = {}
    for usage in told:
        joined |= {name: value for name, value in usage.told.items() if value is not None}
    return joined
