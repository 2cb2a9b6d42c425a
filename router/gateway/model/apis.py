"""OpenAI's requests, read as far as the gateway must, and written for a provider; the rest travels
on as it was written.

    POST /v1/chat/completions  messages   chat.completions
    POST /v1/completions       prompt     completions
    POST /v1/embeddings        input      embeddings
    POST /v1/responses         input      responses

Of a body the gateway reads `model`, `stream` and `stream_options`. Each other field is passed on
with every digit and character, also one that is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NoReturn

import msgspec
import orjson
from msgspec import Raw, Struct

from router.contracts.codec import MAX_DEPTH, UNREADABLE_ERRORS, describe_unreadable, is_deeper
from router.contracts.decision import INVALID_REQUEST
from router.contracts.raw_json import check_text
from router.contracts.told_usage import MAX_TOKENS
from router.core.ids import is_opaque, is_scoped
from router.gateway.model.refusal import MODEL_NOT_FOUND, TOO_LARGE, GatewayRefusal

CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES = (
    "chat.completions",
    "completions",
    "embeddings",
    "responses",
)
# what must stand in the body of each
ASKED_BY: Mapping[str, str] = {
    CHAT: "messages",
    COMPLETIONS: "prompt",
    EMBEDDINGS: "input",
    RESPONSES: "input",
}
# a plain provider, which takes a text and answers one, can serve these
OF_PLAIN_TEXT = frozenset({CHAT, COMPLETIONS})
MAX_BODY_BYTES = 1024 * 1024
MAX_FIELDS = 256
POLICY_PREFIX = "router/"
AUTO = "auto"
DEFAULT_POLICY = "default"

_MAX_DIGITS = len(str(MAX_TOKENS))
_MOST_TOKENS = ("max_completion_tokens", "max_output_tokens", "max_tokens")

Fields = dict[str, Raw]
_decode = msgspec.json.Decoder(Fields).decode


class ApiRequest(Struct, frozen=True, kw_only=True):
    """One request of an API. `model`: as the client named it."""

    api: str
    fields: Fields
    model: str
    is_stream: bool = False
    wants_usage: bool = False
    most_tokens: int | None = None  # of an answer, as the client bounds it


def read_api_request(api: str, data: bytes) -> ApiRequest:
    """Raises GatewayRefusal, which names the field."""
    fields = read_fields(data)
    if ASKED_BY[api] not in fields:
        _refuse(ASKED_BY[api], "is required")
    model = _read(fields, "model")
    if not isinstance(model, str) or not is_opaque(model):
        _refuse("model", "should be 1..128 printable characters of ASCII without a space")
    is_stream = _read_flag(fields, "stream")
    options = _read(fields, "stream_options")
    if options is not None and not isinstance(options, dict):
        _refuse("stream_options", "should be an object")
    if is_stream and api == EMBEDDINGS:
        _refuse("stream", "embeddings are answered whole")
    return ApiRequest(
        api=api,
        fields=fields,
        model=model,
        is_stream=is_stream,
        wants_usage=options is not None and options.get("include_usage") is True,
        most_tokens=_read_most_tokens(fields),
    )


def read_fields(data: bytes) -> Fields:
    """The fields of a JSON object, not opened. Raises GatewayRefusal."""
    if len(data) > MAX_BODY_BYTES:
        raise GatewayRefusal(TOO_LARGE, f"A request has at most {MAX_BODY_BYTES} bytes")
    if is_deeper(data, MAX_DEPTH):
        raise GatewayRefusal(INVALID_REQUEST, f"The body is nested deeper than {MAX_DEPTH}")
    try:
        check_text(data)
        fields = _decode(data)
    except UNREADABLE_ERRORS as exc:
        text = f"The body is not a JSON object: {describe_unreadable(data, exc)}"
        raise GatewayRefusal(INVALID_REQUEST, text) from exc
    if len(fields) > MAX_FIELDS:
        raise GatewayRefusal(INVALID_REQUEST, f"The body has more than {MAX_FIELDS} fields")
    return fields


def _read(fields: Fields, name: str) -> object:
    written = fields.get(name)
    return None if written is None else msgspec.json.decode(written)


def _read_flag(fields: Fields, name: str) -> bool:
    value = _read(fields, name)
    if value is not None and not isinstance(value, bool):
        _refuse(name, "should be true or false")
    return bool(value)


def _read_most_tokens(fields: Fields) -> int | None:
    for name in _MOST_TOKENS:
        most = _read(fields, name)
        if type(most) is int and 0 < most <= MAX_TOKENS:
            return most
    return None


def _refuse(name: str, legal: str) -> NoReturn:
    raise GatewayRefusal(INVALID_REQUEST, f"{name} {legal}", param=name)


# -- Which policy a model names.


class NamedPolicy(Struct, frozen=True):
    """`model`: of a provider, where the client named one; the policy's candidates are narrowed to
    those that have it.
    """

    policy_id: str
    model: str | None = None


def find_policy(model: str, usual: str = DEFAULT_POLICY) -> NamedPolicy:
    """`router/chat` is the policy `chat`, `auto` the usual one; any other name is a provider's
    model, of the usual policy, or of the one in `router/chat/gpt-4o`. Raises GatewayRefusal.
    """
    if model == AUTO:
        return NamedPolicy(usual)
    if not model.startswith(POLICY_PREFIX):
        return NamedPolicy(usual, model)
    policy_id, slash, of_provider = model.removeprefix(POLICY_PREFIX).partition("/")
    if not is_scoped(policy_id) or (slash and not of_provider):
        raise GatewayRefusal(MODEL_NOT_FOUND, f"There is no policy {policy_id!r}", param="model")
    return NamedPolicy(policy_id, of_provider or None)


# -- What a provider is asked.

_OF_TRANSPORT = ("stream", "stream_options")


def write_prompt(fields: Fields, model: str | None, parameters: Mapping[str, object]) -> str:
    """The body for a provider that understands the API. `parameters` are the policy's, and hold
    against the client's; `model` None: the provider's own.
    """
    written: dict[str, object] = {
        name: value for name, value in fields.items() if name not in _OF_TRANSPORT
    }
    written |= parameters
    written.pop("model", None)
    if model is not None:
        written["model"] = model
    return msgspec.json.encode(written).decode()


def write_plain_prompt(api: str, fields: Fields) -> str:
    """The text for a plain provider: a single message as it is, several with their roles. Raises
    GatewayRefusal for what is no text.
    """
    if api == COMPLETIONS:
        prompt = _read(fields, "prompt")
        return prompt if isinstance(prompt, str) else _refuse_no_text("prompt")
    messages = _read(fields, "messages")
    if not isinstance(messages, list) or not messages:
        _refuse_no_text("messages")
    said = [_read_message(message) for message in messages]
    return said[0][1] if len(said) == 1 else "\n".join(f"{role}: {text}" for role, text in said)


def _read_message(message: object) -> tuple[str, str]:
    if not isinstance(message, dict) or not isinstance(role := message.get("role"), str):
        _refuse_no_text("messages")
    return role, "".join(_list_texts(message.get("content")))


def _list_texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
        return
    parts: Iterable[object] = content if isinstance(content, list) else (content,)
    for part in parts:
        text = part.get("text") if isinstance(part, dict) else None
        yield text if isinstance(text, str) else _refuse_no_text("messages")


def _refuse_no_text(name: str) -> NoReturn:
    text = f"{name}: this provider takes text alone"
    raise GatewayRefusal(INVALID_REQUEST, text, param=name)


# -- What a plain provider answered, in OpenAI's shape.


class AnswerHead(Struct, frozen=True):
    """What stands in an answer beside its text. `created`: seconds since the epoch; `written_id`:
    of the provider's own chunks, where it wrote them.
    """

    request_id: str
    model: str
    created: int
    written_id: str | None = None


def count_usage(metadata: Mapping[str, str]) -> dict[str, object] | None:
    """Tokens as they were billed, in OpenAI's shape; None: there are none."""
    told = {name: _read_whole(metadata.get(f"{name}_tokens")) for name in ("prompt", "completion")}
    if None in told.values():
        return None
    usage: dict[str, object] = {f"{name}_tokens": count for name, count in told.items()}
    usage["total_tokens"] = sum(count for count in told.values() if count is not None)
    cached = _read_whole(metadata.get("cached_tokens"))
    return (
        usage if cached is None else {**usage, "prompt_tokens_details": {"cached_tokens": cached}}
    )


def _read_whole(text: str | None) -> int | None:
    """A provider may have written it: what is longer than a number of tokens is none."""
    is_count = text is not None and text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    return int(text) if text is not None and is_count else None


def wrap_text(api: str, head: AnswerHead, text: str, usage: Mapping[str, object] | None) -> bytes:
    """A whole text as an answer of the API."""
    choice: dict[str, object] = (
        {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        if api == CHAT
        else {"index": 0, "text": text, "logprobs": None, "finish_reason": "stop"}
    )
    answer = _begin(api, head, is_chunk=False) | {"choices": [choice]}
    return orjson.dumps(answer if usage is None else {**answer, "usage": usage})


def wrap_piece(api: str, head: AnswerHead, text: str, *, is_first: bool) -> bytes:
    """A piece of text as a chunk of the API."""
    if api == COMPLETIONS:
        choice: dict[str, object] = {"index": 0, "text": text, "finish_reason": None}
    else:
        role = {"role": "assistant"} if is_first else {}
        choice = {"index": 0, "delta": {**role, "content": text}, "finish_reason": None}
    return orjson.dumps(_begin(api, head, is_chunk=True) | {"choices": [choice]})


def wrap_end(api: str, head: AnswerHead) -> bytes:
    """The chunk that says that the text is complete."""
    choice: dict[str, object] = {"index": 0, "finish_reason": "stop"}
    nothing: dict[str, object] = {"text": ""} if api == COMPLETIONS else {"delta": {}}
    return orjson.dumps(_begin(api, head, is_chunk=True) | {"choices": [choice | nothing]})


def wrap_usage(api: str, head: AnswerHead, usage: Mapping[str, object]) -> bytes:
    """The last chunk, for a client that asked for it: the tokens, and no choice."""
    return orjson.dumps(_begin(api, head, is_chunk=True) | {"choices": [], "usage": usage})


def _begin(api: str, head: AnswerHead, *, is_chunk: bool) -> dict[str, object]:
    if api == COMPLETIONS:
        prefix, kind = "cmpl", "text_completion"
    else:
        prefix, kind = "chatcmpl", "chat.completion.chunk" if is_chunk else "chat.completion"
    return {
        "id": head.written_id or f"{prefix}-{head.request_id}",
        "object": kind,
        "created": head.created,
        "model": head.model,
    }


# -- Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html).

DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"


def write_event(data: bytes, name: str | None = None) -> bytes:
    """One event. A line feed inside `data` begins another `data:` line, so that nothing of it can
    end the event. A name that is no single word is left out.
    """
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    head = b"" if name is None or not is_opaque(name) else b"event: " + name.encode() + b"\n"
    return head + b"".join(b"data: " + line + b"\n" for line in lines) + b"\n"
