"""Ollama's API: a chat is asked on `/api/chat`, whose stream is a line of JSON for each piece, and
answered in OpenAI's shape.

    temperature, top_p, seed, stop, max_tokens, …     `options`, by their names there
    response_format                                   `format`: json, or the schema
    images                                            by their data alone: it fetches no address
    done_reason                                       stop, length; with calls of tools tool_calls
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import orjson

from router.providers.api_call import CHAT, ApiCall, refuse_call
from router.providers.event_lines import LineReader
from router.providers.kinds import Json, Piece, describe_answer
from router.providers.kinds.chat import (
    ChatAnswer,
    make_tool_call,
    read_functions,
    read_image,
    read_messages,
    read_parts,
    read_text,
    read_tool_calls,
    read_usage,
    require_one_choice,
)
from router.providers.models import list_legal
from router.providers.upstream import OpenAnswer, Upstream, make_api_failure, read_object
from router.sdk.extension import Output, ProviderFailed, Usage

CHAT_PATH = "/api/chat"
OPTIONS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "seed": "seed",
    "stop": "stop",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "max_tokens": "num_predict",
    "max_completion_tokens": "num_predict",
}


class OllamaKind:
    apis: tuple[str, ...] = (CHAT,)

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def list_models(self) -> tuple[str, ...]:
        listed = (await self._upstream.ask("/api/tags")).fields.get("models")
        models = listed if isinstance(listed, list) else []
        return list_legal(model.get("name") for model in models if isinstance(model, dict))

    async def complete(self, call: ApiCall) -> Output:
        answer = await self._upstream.ask(CHAT_PATH, {**make_request(call), "stream": False})
        fields = answer.fields
        if fields.get("error"):
            raise make_api_failure(502, fields)
        message = make_message(_message_of(fields))
        usage, reason = _read_usage(fields), _find_finish_reason(fields, "tool_calls" in message)
        made = ChatAnswer.begin(usage.model or call.model)
        facts = describe_answer(upstream_request_id=answer.request_id, finish_reason=reason)
        completion = made.make_completion(message, reason, usage)
        return Output(output=completion, metadata=facts, model=usage.model, **usage.usage)

    async def stream(self, call: ApiCall) -> AsyncGenerator[Piece, None]:
        state = ChatStream(call.model)
        async with self._upstream.stream(
            CHAT_PATH, {**make_request(call), "stream": True}
        ) as answer:
            async for fields in _read_lines(answer):
                for piece in state.take(fields):
                    yield piece
                if state.has_ended:
                    break
        yield state.finish(answer.request_id)


async def _read_lines(answer: OpenAnswer) -> AsyncIterator[Json]:
    reader = LineReader()
    async for chunk in answer.chunks:
        for line in reader.feed(chunk):
            if line:
                yield read_object(line)
    for line in reader.end():
        yield read_object(line)


class ChatStream:
    """The lines of one stream, as chunks of a chat."""

    def __init__(self, model: str) -> None:
        self._made = ChatAnswer.begin(model)
        self._usage = Usage()
        self._calls = 0
        self._has_begun = False
        self._finish_reason: str | None = None
        self.has_ended = False

    def take(self, fields: Json) -> list[Piece]:
        """Raises what the line says, where it is an error."""
        if fields.get("error"):
            raise make_api_failure(502, fields)
        message = make_message(_message_of(fields), self._calls)
        pieces: list[Piece] = []
        calls = message.get("tool_calls", [])
        if message["content"] or calls or not self._has_begun:
            pieces.append(self._made.make_chunk(self._make_delta(message, calls)))
        if fields.get("done") is True:
            self._usage, self.has_ended = _read_usage(fields), True
            self._finish_reason = _find_finish_reason(fields, self._calls > 0)
            pieces += [self._usage, self._made.make_chunk({}, self._finish_reason)]
        return pieces

    def _make_delta(self, message: Json, calls: list[Json]) -> Json:
        role = {} if self._has_begun else {"role": "assistant"}
        numbered = [{"index": self._calls + place, **call} for place, call in enumerate(calls)]
        self._has_begun, self._calls = True, self._calls + len(calls)
        return {
            **role,
            "content": message["content"] or "",
            **({"tool_calls": numbered} if numbered else {}),
        }

    def finish(self, request_id: str | None) -> Output:
        """Raises ProviderFailed for a stream that was cut."""
        if not self.has_ended:
            raise ProviderFailed("the API's stream ended before its end")
        facts = describe_answer(upstream_request_id=request_id, finish_reason=self._finish_reason)
        figures: dict[str, Any] = {"model": self._usage.model, **self._usage.usage}
        return Output(metadata=facts, **figures)


def _message_of(fields: Json) -> Json:
    message = fields.get("message")
    return message if isinstance(message, dict) else {}


def make_message(message: Json, first: int = 0) -> Json:
    """The message of an assistant. Its calls have no id of their own: they get one."""
    content, told = message.get("content"), message.get("tool_calls")
    functions = [
        function
        for call in (told if isinstance(told, list) else [])
        if isinstance(call, dict) and isinstance(function := call.get("function"), dict)
    ]
    calls = [
        make_tool_call(
            f"call_{first + place}",
            str(function.get("name", "")),
            orjson.dumps(function.get("arguments") or {}).decode(),
        )
        for place, function in enumerate(functions)
    ]
    text = content if isinstance(content, str) and content else None
    return {"content": text, **({"tool_calls": calls} if calls else {})}


def _read_usage(fields: Json) -> Usage:
    counts = {
        "prompt_tokens": fields.get("prompt_eval_count"),
        "completion_tokens": fields.get("eval_count"),
    }
    return read_usage(fields.get("model"), counts)


def _find_finish_reason(fields: Json, has_calls: bool) -> str:
    if has_calls:
        return "tool_calls"
    return "length" if fields.get("done_reason") == "length" else "stop"


# -- The request.


def make_request(call: ApiCall) -> Json:
    """Raises RequestFailed: the request's fault."""
    body = call.body
    require_one_choice(body)
    names: dict[str, str] = {}  # of the tools, by the ids of their calls
    messages = [_make_message(message, names) for message in read_messages(body)]
    options = {there: body[here] for here, there in OPTIONS.items() if body.get(here) is not None}
    tools = [{"type": "function", "function": function} for function in read_functions(body)]
    return {
        "model": call.model,
        "messages": messages,
        **({"options": options} if options else {}),
        **({"tools": tools} if tools else {}),
        **_make_format(body.get("response_format")),
    }


def _make_message(message: Json, names: dict[str, str]) -> Json:
    parts = read_parts(message.get("content"))
    images = [_read_data(part) for part in parts if part.get("type") == "image_url"]
    text = "".join(read_text(part) for part in parts if part.get("type") != "image_url")
    calls = read_tool_calls(message)
    names |= {call_id: name for call_id, name, _ in calls}
    role = "system" if message["role"] == "developer" else message["role"]
    named = names.get(str(message.get("tool_call_id"))) if role == "tool" else None
    functions = [{"function": {"name": name, "arguments": given}} for _, name, given in calls]
    return {
        "role": role,
        "content": text,
        **({"images": images} if images else {}),
        **({"tool_calls": functions} if functions else {}),
        **({"tool_name": named} if named else {}),
    }


def _read_data(part: Json) -> str:
    media_type, data = read_image(part)
    if not media_type:
        refuse_call("messages.content.image_url", "this provider fetches none: send its data")
    return data


def _make_format(asked: object) -> Json:
    if not isinstance(asked, dict):
        return {}
    match asked.get("type"):
        case "json_object":
            return {"format": "json"}
        case "json_schema":
            schema = asked.get("json_schema")
            return {"format": schema.get("schema", "json") if isinstance(schema, dict) else "json"}
        case _:
            return {}
