"""Anthropic's API: a chat is asked on `/v1/messages`, and answered in OpenAI's shape.

    stop_reason     end_turn, stop_sequence -> stop      max_tokens -> length
                    tool_use -> tool_calls               refusal -> content_filter
    usage           prompt_tokens is the input, what was read from the cache, and what was written
                    into it; cached_tokens is what was read from it

A stream tells its input with its first event, and its output with its last but one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import orjson

from router.providers.api_call import CHAT, ApiCall
from router.providers.event_lines import ServerEvent
from router.providers.kinds import Json, Piece, describe_answer
from router.providers.kinds.anthropic_request import make_request
from router.providers.kinds.chat import ChatAnswer, make_tool_call, read_usage
from router.providers.kinds.openai import make_stream_failure, read_events
from router.providers.models import list_legal
from router.providers.upstream import Upstream, read_object
from router.sdk.extension import Output, ProviderFailed, Usage

MESSAGES = "/v1/messages"
FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


class AnthropicKind:
    apis: tuple[str, ...] = (CHAT,)

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def list_models(self) -> tuple[str, ...]:
        listed = (await self._upstream.ask("/v1/models")).fields.get("data")
        models = listed if isinstance(listed, list) else []
        return list_legal(model.get("id") for model in models if isinstance(model, dict))

    async def complete(self, call: ApiCall) -> Output:
        answer = await self._upstream.ask(MESSAGES, make_request(call))
        usage = read_message_usage(answer.fields.get("model"), answer.fields.get("usage"))
        reason = _find_finish_reason(answer.fields.get("stop_reason"))
        made = ChatAnswer.begin(usage.model or call.model)
        message = make_message(answer.fields.get("content"))
        return Output(
            output=made.make_completion(message, reason, usage),
            metadata=describe_answer(upstream_request_id=answer.request_id, finish_reason=reason),
            model=usage.model,
            **usage.usage,
        )

    async def stream(self, call: ApiCall) -> AsyncGenerator[Piece, None]:
        state = MessageStream(call.model)
        async with self._upstream.stream(
            MESSAGES, {**make_request(call), "stream": True}
        ) as answer:
            async for event in read_events(answer):
                for piece in state.take(event):
                    yield piece
                if state.has_ended:
                    break
        yield state.finish(answer.request_id)


def make_message(content: object) -> Json:
    """The message of an assistant, of this API's blocks."""
    blocks = [
        block for block in (content if isinstance(content, list) else []) if isinstance(block, dict)
    ]
    texts = [text for block in blocks if isinstance(text := block.get("text"), str)]
    calls = [
        make_tool_call(
            str(block.get("id", "")),
            str(block.get("name", "")),
            orjson.dumps(block.get("input") or {}).decode(),
        )
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    return {
        "content": "".join(texts) if texts else None,
        **({"tool_calls": calls} if calls else {}),
    }


def read_message_usage(model: object, told: object) -> Usage:
    """OpenAI counts what came from the cache, and what went into it, as part of the input."""
    usage: Json = told if isinstance(told, dict) else {}
    read = _count(usage.get("cache_read_input_tokens"))
    written = _count(usage.get("cache_creation_input_tokens"))
    fields: Json = {"completion_tokens": usage.get("output_tokens")}
    if isinstance(usage.get("input_tokens"), int):
        fields["prompt_tokens"] = _count(usage["input_tokens"]) + read + written
        fields["prompt_tokens_details"] = {"cached_tokens": read}
    return read_usage(model, fields)


def _count(value: object) -> int:
    return value if type(value) is int and value > 0 else 0


def _find_finish_reason(told: object) -> str:
    return FINISH_REASONS.get(str(told), "stop")


class MessageStream:
    """The events of one stream, as chunks of a chat."""

    def __init__(self, model: str) -> None:
        self._made = ChatAnswer.begin(model)
        self._started: Json = {}  # the usage that the first event told
        self._usage = Usage()
        self._calls = -1  # the index of the call that is being written
        self._finish_reason: str | None = None
        self.has_ended = False

    def take(self, event: ServerEvent) -> list[Piece]:
        """Raises what the event says, where it is an error."""
        fields = read_object(event.data)
        match fields.get("type"):
            case "message_start":
                return self._start(_part(fields, "message"))
            case "content_block_start":
                return self._open_block(_part(fields, "content_block"))
            case "content_block_delta":
                return self._add(_part(fields, "delta"))
            case "message_delta":
                return self._conclude(_part(fields, "delta"), _part(fields, "usage"))
            case "message_stop":
                self.has_ended = True
            case "error":
                raise make_stream_failure(fields.get("error"))
        return []

    def _start(self, message: Json) -> list[Piece]:
        self._started = _part(message, "usage")
        self._usage = read_message_usage(message.get("model"), self._started)
        if self._usage.model is not None:
            self._made = ChatAnswer.begin(self._usage.model)
        return [self._usage, self._made.make_chunk({"role": "assistant", "content": ""})]

    def _open_block(self, block: Json) -> list[Piece]:
        if block.get("type") != "tool_use":
            return []
        self._calls += 1
        call = make_tool_call(str(block.get("id", "")), str(block.get("name", "")), "")
        return [self._made.make_chunk({"tool_calls": [{"index": self._calls, **call}]})]

    def _add(self, delta: Json) -> list[Piece]:
        text, arguments = delta.get("text"), delta.get("partial_json")
        if delta.get("type") == "text_delta" and isinstance(text, str):
            return [self._made.make_chunk({"content": text})]
        if delta.get("type") == "input_json_delta" and isinstance(arguments, str):
            function = {"arguments": arguments}
            return [
                self._made.make_chunk(
                    {"tool_calls": [{"index": self._calls, "function": function}]}
                )
            ]
        return []

    def _conclude(self, delta: Json, told: Json) -> list[Piece]:
        """Its usage is that of the whole; it may leave out what the first event told."""
        known = {name: value for name, value in told.items() if value is not None}
        self._usage = read_message_usage(self._usage.model, {**self._started, **known})
        self._finish_reason = _find_finish_reason(delta.get("stop_reason"))
        return [self._usage, self._made.make_chunk({}, self._finish_reason)]

    def finish(self, request_id: str | None) -> Output:
        """Raises ProviderFailed for a stream that was cut."""
        if not self.has_ended and self._finish_reason is None:
            raise ProviderFailed("the API's stream ended before its end")
        facts = describe_answer(upstream_request_id=request_id, finish_reason=self._finish_reason)
        figures: dict[str, Any] = {"model": self._usage.model, **self._usage.usage}
        return Output(metadata=facts, **figures)


def _part(fields: Json, name: str) -> Json:
    part = fields.get(name)
    return part if isinstance(part, dict) else {}
