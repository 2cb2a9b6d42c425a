"""A provider that answers itself, for tutorials and tests: the last message of the user comes back,
word by word where it is streamed. A word is a token. Embeddings are made of a digest of the text.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import AsyncGenerator
from typing import Any

from router.core.clock import wall
from router.providers.api_call import (
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    RESPONSES,
    ApiCall,
    refuse_call,
)
from router.providers.kinds import ApiEvent, Json, Piece, describe_answer
from router.providers.kinds.chat import (
    ChatAnswer,
    make_usage,
    read_all_text,
    read_messages,
    require_one_choice,
)
from router.sdk.extension import Output, Usage

MODEL = "echo-1"
DIMENSIONS = 8
MAX_TEXTS = 256  # in one request for embeddings


class EchoKind:
    apis: tuple[str, ...] = (CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES)

    async def list_models(self) -> tuple[str, ...]:
        return (MODEL,)

    async def complete(self, call: ApiCall) -> Output:
        if call.api == EMBEDDINGS:
            return _make_embeddings(call)
        text, usage = _read_question(call)
        return _output(_WHOLE[call.api](call.model, text, usage), usage)

    async def stream(self, call: ApiCall) -> AsyncGenerator[Piece, None]:
        text, usage = _read_question(call)
        # what the input counts for is known before the answer
        yield Usage(model=call.model, prompt_tokens=usage.prompt_tokens, cached_tokens=0)
        for event in _STREAMED[call.api](call.model, text, usage):
            yield ApiEvent(event)
        yield _output("", usage)


def _output(output: object, usage: Usage) -> Output:
    figures: dict[str, Any] = {"model": usage.model, **usage.usage}
    return Output(output=output, metadata=describe_answer(finish_reason="stop"), **figures)


def _read_question(call: ApiCall) -> tuple[str, Usage]:
    """The text that comes back, and what both are counted for."""
    body = call.body
    match call.api:
        case "chat.completions":
            require_one_choice(body)
            texts = [
                (message["role"], read_all_text(message.get("content")))
                for message in read_messages(body)
            ]
        case "completions":
            texts = [("user", _require_text(body.get("prompt"), "prompt"))]
        case _:
            asked = body.get("input")
            texts = (
                [("user", asked)]
                if isinstance(asked, str)
                else [
                    (message["role"], _read_input(message.get("content")))
                    for message in read_messages({"messages": asked})
                ]
            )
    answer = next((text for role, text in reversed(texts) if role == "user"), "")
    asked_tokens = sum(len(text.split()) for _, text in texts)
    usage = Usage(
        model=call.model,
        prompt_tokens=asked_tokens,
        completion_tokens=len(split_words(answer)),
        cached_tokens=0,
    )
    return answer, usage


def _read_input(content: object) -> str:
    """Parts of `responses` have types of their own."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return _require_text(content, "input.content")


def _require_text(value: object, place: str) -> str:
    if not isinstance(value, str):
        refuse_call(place, "should be text")
    return value


def split_words(text: str) -> list[str]:
    """Its words, each with the space before it."""
    first, *rest = text.split(" ")
    return [first, *(f" {word}" for word in rest)] if text else []


def _make_chat(model: str, text: str, usage: Usage) -> Json:
    return ChatAnswer.begin(model).make_completion({"content": text}, "stop", usage)


def _stream_chat(model: str, text: str, _: Usage) -> list[Json]:
    made = ChatAnswer.begin(model)
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in split_words(text)]
    return [
        *(made.make_chunk(delta).fields for delta in deltas),
        made.make_chunk({}, "stop").fields,
    ]


def _make_text(model: str, text: str, usage: Usage) -> Json:
    return {**_make_piece(model, text, "stop"), "usage": make_usage(usage)}


def _stream_text(model: str, text: str, _: Usage) -> list[Json]:
    head = {"id": f"cmpl-{uuid.uuid4().hex}"}
    pieces = [(word, None) for word in split_words(text)]
    return [{**_make_piece(model, *piece), **head} for piece in (*pieces, ("", "stop"))]


def _make_piece(model: str, text: str, finish_reason: str | None) -> Json:
    return {
        "id": f"cmpl-{uuid.uuid4().hex}",
        "object": "text_completion",
        "created": int(wall()),
        "model": model,
        "choices": [{"index": 0, "text": text, "logprobs": None, "finish_reason": finish_reason}],
    }


def _make_embeddings(call: ApiCall) -> Output:
    asked = call.body.get("input")
    texts = [asked] if isinstance(asked, str) else asked
    if not isinstance(texts, list) or not 1 <= len(texts) <= MAX_TEXTS:
        refuse_call("input", f"should be text, or a list of 1..{MAX_TEXTS} texts")
    texts = [_require_text(text, "input") for text in texts]
    count = sum(len(text.split()) for text in texts)
    usage = Usage(model=call.model, prompt_tokens=count, completion_tokens=0)
    output = {
        "object": "list",
        "model": call.model,
        "data": [
            {"object": "embedding", "index": place, "embedding": _make_vector(text)}
            for place, text in enumerate(texts)
        ],
        "usage": {"prompt_tokens": count, "total_tokens": count},
    }
    return _output(output, usage)


def _make_vector(text: str) -> list[float]:
    """The same text has the same vector."""
    digest = hashlib.sha256(text.encode("utf-8", "replace")).digest()
    return [byte / 128 - 1 for byte in digest[:DIMENSIONS]]


# -- `responses`: one object, or its typed events.


def _make_response(model: str, text: str, usage: Usage, status: str = "completed") -> Json:
    is_over = status == "completed"
    return {
        "id": f"resp_{uuid.uuid4().hex}",
        "object": "response",
        "created_at": int(wall()),
        "status": status,
        "model": model,
        "output": [_make_item(text, "completed")] if is_over else [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
        "usage": _make_response_usage(usage) if is_over else None,
    }


def _make_response_usage(usage: Usage) -> Json:
    asked, answered = usage.prompt_tokens or 0, usage.completion_tokens or 0
    return {
        "input_tokens": asked,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": answered,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": asked + answered,
    }


def _make_item(text: str | None, status: str) -> Json:
    content = [] if text is None else [_make_text_part(text)]
    return {
        "id": "msg_0",
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": content,
    }


def _make_text_part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": []}


def _stream_response(model: str, text: str, usage: Usage) -> list[Json]:
    whole = _make_response(model, text, usage)
    begun = {**_make_response(model, text, usage, "in_progress"), "id": whole["id"]}
    place = {"item_id": "msg_0", "output_index": 0, "content_index": 0}
    words = [
        {"type": "response.output_text.delta", **place, "delta": word, "logprobs": []}
        for word in split_words(text)
    ]
    item, part = {"output_index": 0}, _make_text_part(text)
    events: list[Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
        {"type": "response.output_item.added", **item, "item": _make_item(None, "in_progress")},
        {"type": "response.content_part.added", **place, "part": _make_text_part("")},
        *words,
        {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", **item, "item": _make_item(text, "completed")},
        {"type": "response.completed", "response": whole},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


_WHOLE = {CHAT: _make_chat, COMPLETIONS: _make_text, RESPONSES: _make_response}
_STREAMED = {CHAT: _stream_chat, COMPLETIONS: _stream_text, RESPONSES: _stream_response}
