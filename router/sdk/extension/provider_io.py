"""The same two steps for providers: what one is given, and its output as bytes (docs/reference/extensions.md#provider-call).

    {trace_id, tenant_id, provider_id, prompt, parameters, context, config?}  ->  {provider_id, output, usage, cost?, metadata}

A stream's pieces and what its last chunk says are here too; how pieces travel is `delivery.calls.reply_streams`' business.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace

from router.contracts.codec import bytes_of, read_object, value_of
from router.contracts.malformed import Malformed
from router.contracts.provider import ERROR
from router.contracts.provider_chunk import StreamChunk, chunk_bytes, strings
from router.core.ids import is_token
from router.routing.extensions.failure import find_fault
from router.sdk.extension.request import MAX_REQUEST_BYTES, NO_HEADERS, check_size, refuse, tenant, trace
from router.sdk.extension.response import check_metadata, encode, raise_invalid, require_fit
from router.sdk.extension.results import NOTHING, RequestFailed


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
    def from_prompt(cls, prompt: str | bytes, *, provider_id: str = "mine", tenant_id: str = "acme", **rest: Any) -> Self:
        return cls(provider_id=provider_id, tenant_id=tenant_id, prompt=prompt, **{"trace_id": "t-1", **rest})


class Output(Struct, frozen=True, kw_only=True):
    """A provider's answer. `output`: text, or any JSON value; `cost` in the currency of the policies.

    The last thing that a streaming provider yields may be one: its output is the last piece.
    """

    output: object = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: float | None = None
    metadata: Mapping[str, object] = NOTHING

    @property
    def usage(self) -> dict[str, int]:
        fields = {"prompt_tokens": self.prompt_tokens, "completion_tokens": self.completion_tokens}
        return {name: count for name, count in fields.items() if count is not None}


def read_invocation(data: bytes, headers: Mapping[str, str]) -> Invocation:
    """Read the invocation. Raises RequestFailed: 413 when it is too large, else 400."""
    check_size(data)
    try:
        body = read_object(data, MAX_REQUEST_BYTES)
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
    answer: dict[str, object] = {"provider_id": invocation.provider_id, "output": made.output, "usage": made.usage}
    if made.cost is not None:
        answer["cost"] = made.cost
    return encode({**answer, "metadata": check_metadata(made.metadata, "metadata")})


def check_output(made: Output) -> Output:
    """Raises RequestFailed 422 for figures that cannot be billed."""
    if made.output is None:
        raise_invalid("output", "a provider returns text, a JSON value or an Output, not None")
    if not all(type(count) is int and count >= 0 for count in made.usage.values()):
        raise_invalid("usage", "tokens should be whole numbers, 0 or more")
    if made.cost is not None and not (type(made.cost) in (int, float) and 0 <= made.cost < float("inf")):
        raise_invalid("cost", "should be a finite number, 0 or more")
    return made


def piece_of(yielded: object) -> bytes:
    """One piece of a stream."""
    if not isinstance(yielded, str | bytes):
        raise_invalid("data", f"a streaming provider yields text or bytes, and an Output as the last, not {type(yielded).__name__}")
    return require_fit(chunk_bytes(StreamChunk(data=yielded)))


def last_piece(made: Output) -> bytes:
    """The piece that ends a stream, with what it cost."""
    made = check_output(made)
    if not isinstance(made.output, str):
        raise_invalid("output", "the last piece of a stream should be text")
    fields = {**check_metadata(made.metadata, "metadata"), **made.usage, "cost": made.cost}
    return require_fit(chunk_bytes(StreamChunk(data=made.output, done=True, metadata=strings(fields))))


def broken_piece(failed: RequestFailed) -> bytes:
    """The piece that ends a stream which has failed."""
    fields = {"status": ERROR, "error_code": failed.code, "error_message": str(failed), "fault": find_fault(failed.status, failed.fault)}
    if failed.retry_after_ms is not None:
        fields["retry_after_ms"] = str(failed.retry_after_ms)
    return chunk_bytes(StreamChunk(done=True, metadata=fields))


def join_pieces(pieces: list[object]) -> Output:
    """Join everything that a streaming provider yielded, for a caller that wants one answer."""
    found = pieces[-1] if pieces else None
    last = found if isinstance(found, Output) else Output()
    texts = [*(pieces[:-1] if last is found else pieces), last.output]
    if not all(isinstance(text, str) for text in texts):
        raise_invalid("output", "a stream of bytes has to be asked for as a stream")
    return replace(last, output="".join(str(text) for text in texts))
