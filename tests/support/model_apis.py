"""The APIs of three vendors on one port, as a test's own server: OpenAI's below `/v1`, Anthropic's
`/v1/messages`, Ollama's `/api/chat`. The vendors' own clients read it (`tests/providers`).

It says `you said …` of the last text that it is given, or calls the first tool, and keeps a ledger
of what each call asked for, and of the tokens that it told. `faults` are what it does instead, one
for each call.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.support.inbox import a_service

Json = dict[str, Any]
Fault = Callable[["ApiRequest"], Response]

REQUEST_ID = "req_stand-in"
CACHED, WRITTEN = 2, 3  # tokens of each prompt that came from the cache, or went into it
ARGUMENTS = {"city": "Oslo", "days": 2}
CREATED = 1_700_000_000


@dataclass
class ApiRequest:
    """One call, and what became of it."""

    path: str
    headers: Mapping[str, str]
    body: Json
    port: int = 0  # of its caller
    prompt_tokens: int = 0
    completion_tokens: int = 0
    is_gone: asyncio.Event = field(default_factory=asyncio.Event)  # its caller left
    has_ended: bool = False  # with its last byte


class ModelApis:
    """`calls`: its ledger."""

    def __init__(self) -> None:
        self.calls: list[ApiRequest] = []
        self.faults: deque[Fault] = deque()
        self.models = ["small", "large"]
        self.url = ""
        routes = [
            ("/v1/chat/completions", self._chat),
            ("/v1/completions", self._completions),
            ("/v1/embeddings", self._embeddings),
            ("/v1/responses", self._responses),
            ("/v1/messages", self._messages),
            ("/api/chat", self._ollama),
        ]
        self.app = Starlette(
            routes=[
                *(Route(path, self._serve(answer), methods=["POST"]) for path, answer in routes),
                Route("/v1/models", self._list_models),
                Route("/api/tags", self._list_tags),
            ]
        )

    def _serve(self, answer: Callable[[ApiRequest], Response]) -> Callable[[Request], Any]:
        async def serve(request: Request) -> Response:
            body = json.loads(await request.body())
            port = request.client.port if request.client is not None else 0
            call = ApiRequest(request.url.path, dict(request.headers), body, port)
            self.calls.append(call)
            response = self.faults.popleft()(call) if self.faults else answer(call)
            response.headers["x-request-id"] = REQUEST_ID
            response.headers["request-id"] = REQUEST_ID
            return response

        return serve

    async def _list_models(self, _: Request) -> Response:
        data = [
            {"id": name, "object": "model", "created": CREATED, "owned_by": "tests"}
            for name in self.models
        ]
        return JSONResponse({"object": "list", "data": data})

    async def _list_tags(self, _: Request) -> Response:
        return JSONResponse({"models": [{"name": name} for name in self.models]})

    # -- OpenAI's.

    def _chat(self, call: ApiRequest) -> Response:
        body = call.body
        head = {"id": "chatcmpl-1", "created": CREATED, "model": body["model"]}
        message: Json = {"role": "assistant", "content": None, "refusal": None}
        if name := _find_tool(body):
            function = {"name": name, "arguments": json.dumps(ARGUMENTS)}
            message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
            words, reason = [json.dumps(ARGUMENTS)], "tool_calls"
        else:
            words, reason = answer_words(last_text(body["messages"])), "stop"
            message["content"] = "".join(words)
        _count(call, words)
        if body.get("stream"):
            return _answer_stream(
                call, map(_write_data, _chat_chunks(call, head, message, words, reason))
            )
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        whole = {**head, "object": "chat.completion", "choices": [choice]}
        return _answer_whole(call, {**whole, "usage": openai_usage(call)})

    def _completions(self, call: ApiRequest) -> Response:
        head = {"id": "cmpl-1", "object": "text_completion", "created": CREATED}
        head["model"] = call.body["model"]
        words = answer_words(call.body["prompt"])
        _count(call, words)
        piece = {"index": 0, "logprobs": None}
        if not call.body.get("stream"):
            choice = {**piece, "text": "".join(words), "finish_reason": "stop"}
            return _answer_whole(call, {**head, "choices": [choice], "usage": openai_usage(call)})
        events = [
            {**head, "choices": [{**piece, "text": word, "finish_reason": None}]} for word in words
        ]
        events.append({**head, "choices": [{**piece, "text": "", "finish_reason": "stop"}]})
        return _answer_stream(call, map(_write_data, [*events, *_last_usage(call, head), "[DONE]"]))

    def _embeddings(self, call: ApiRequest) -> Response:
        texts = call.body["input"]
        texts = [texts] if isinstance(texts, str) else texts
        call.prompt_tokens = len(texts)
        data = [
            {"object": "embedding", "index": place, "embedding": [0.5, -0.25, place + 0.125]}
            for place in range(len(texts))
        ]
        usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
        return _answer_whole(
            call, {"object": "list", "model": call.body["model"], "data": data, "usage": usage}
        )

    def _responses(self, call: ApiRequest) -> Response:
        words = answer_words(str(call.body["input"]))
        _count(call, words)
        whole = _make_response(call, "".join(words))
        if not call.body.get("stream"):
            return _answer_whole(call, whole)
        place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        events: list[Json] = [{"type": "response.created", "response": begun}]
        events += [
            {"type": "response.output_text.delta", **place, "delta": word, "logprobs": []}
            for word in words
        ]
        events.append({"type": "response.completed", "response": whole})
        numbered = ({**event, "sequence_number": n} for n, event in enumerate(events))
        return _answer_stream(call, (_write_event(event) for event in numbered))

    # -- Anthropic's.

    def _messages(self, call: ApiRequest) -> Response:
        name = _find_tool(call.body)
        words = [json.dumps(ARGUMENTS)] if name else answer_words(last_text(call.body["messages"]))
        _count(call, words)
        block: Json = (
            {"type": "tool_use", "id": "toolu_1", "name": name, "input": ARGUMENTS}
            if name
            else {"type": "text", "text": "".join(words), "citations": None}
        )
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": call.body["model"],
            "content": [block],
            "stop_reason": "tool_use" if name else "end_turn",
            "stop_sequence": None,
            "usage": anthropic_usage(call),
        }
        if not call.body.get("stream"):
            return _answer_whole(call, message)
        return _answer_stream(call, map(_write_event, _message_events(call, message, block, words)))

    # -- Ollama's.

    def _ollama(self, call: ApiRequest) -> Response:
        name = _find_tool(call.body)
        words = answer_words(last_text(call.body["messages"]))
        _count(call, words)
        head = {"model": call.body["model"], "created_at": "2026-11-30T12:00:00Z"}
        message: Json = {"role": "assistant", "content": "".join(words)}
        if name:
            function = {"name": name, "arguments": ARGUMENTS}
            message = {"role": "assistant", "content": "", "tool_calls": [{"function": function}]}
        counts = {"prompt_eval_count": call.prompt_tokens, "eval_count": call.completion_tokens}
        end = {"done": True, "done_reason": "stop", **counts}
        if not call.body["stream"]:
            return _answer_whole(call, {**head, "message": message, **end})
        pieces = [message] if name else [{"role": "assistant", "content": w} for w in words]
        lines = [{**head, "message": piece, "done": False} for piece in pieces]
        lines.append({**head, "message": {"role": "assistant", "content": ""}, **end})
        return _answer_stream(
            call, (json.dumps(line) + "\n" for line in lines), "application/x-ndjson"
        )


@asynccontextmanager
async def serve_model_apis() -> AsyncIterator[ModelApis]:
    apis = ModelApis()
    async with a_service(apis.app) as url:
        apis.url = url.removesuffix("/handle")
        yield apis


def answer_words(text: str) -> list[str]:
    first, *rest = f"you said {text}".split(" ")
    return [first, *(f" {word}" for word in rest)]


def last_text(messages: list[Json]) -> str:
    content = messages[-1]["content"]
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content if part["type"] == "text")


def openai_usage(call: ApiRequest) -> Json:
    return {
        "prompt_tokens": call.prompt_tokens,
        "completion_tokens": call.completion_tokens,
        "total_tokens": call.prompt_tokens + call.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": CACHED, "audio_tokens": 0},
    }


def anthropic_usage(call: ApiRequest) -> Json:
    """Its input is what neither came from the cache nor went into it."""
    return {
        "input_tokens": call.prompt_tokens - CACHED - WRITTEN,
        "cache_read_input_tokens": CACHED,
        "cache_creation_input_tokens": WRITTEN,
        "output_tokens": call.completion_tokens,
    }


def _count(call: ApiRequest, words: list[str]) -> None:
    asked = call.body.get("messages", call.body.get("prompt", call.body.get("input")))
    call.prompt_tokens = CACHED + WRITTEN + len(json.dumps(asked).split())
    call.completion_tokens = len(words)


def _find_tool(body: Json) -> str | None:
    """The first tool, where the last message is no result of one."""
    last = body["messages"][-1]
    has_result = last["role"] == "tool" or (
        isinstance(last["content"], list) and last["content"][0]["type"] == "tool_result"
    )
    tools = [] if has_result else body.get("tools", [])
    return next((tool.get("function", tool)["name"] for tool in tools), None)


def _chat_chunks(
    call: ApiRequest, head: Json, message: Json, words: list[str], reason: str
) -> Iterator[Json | str]:
    head = {**head, "object": "chat.completion.chunk"}

    def chunk(delta: Json, finish_reason: str | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return {**head, "choices": [choice], "usage": None}

    yield chunk({"role": "assistant", "content": "" if message["content"] else None})
    if calls := message.get("tool_calls"):
        function = {"name": calls[0]["function"]["name"], "arguments": ""}
        yield chunk({"tool_calls": [{"index": 0, **calls[0], "function": function}]})
        yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": words[0]}}]})
    else:
        yield from (chunk({"content": word}) for word in words)
    yield chunk({}, reason)
    yield from _last_usage(call, head)
    yield "[DONE]"


def _last_usage(call: ApiRequest, head: Json) -> list[Json]:
    """Where it is asked for, as this vendor does it."""
    if not call.body.get("stream_options", {}).get("include_usage"):
        return []
    return [{**head, "choices": [], "usage": openai_usage(call)}]


def _make_response(call: ApiRequest, text: str) -> Json:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    item = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant"}
    usage = {
        "input_tokens": call.prompt_tokens,
        "input_tokens_details": {"cached_tokens": CACHED, "cache_write_tokens": 0},
        "output_tokens": call.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": call.prompt_tokens + call.completion_tokens,
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": CREATED,
        "status": "completed",
        "model": call.body["model"],
        "output": [{**item, "content": content}],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
    }


def _message_events(
    call: ApiRequest, message: Json, block: Json, words: list[str]
) -> Iterator[Json]:
    begun = {**message, "content": [], "stop_reason": None}
    yield {
        "type": "message_start",
        "message": {**begun, "usage": {**anthropic_usage(call), "output_tokens": 1}},
    }
    yield {"type": "ping"}
    empty = {**block, "input": {}} if "input" in block else {**block, "text": ""}
    yield {"type": "content_block_start", "index": 0, "content_block": empty}
    for word in words:
        delta = (
            {"type": "input_json_delta", "partial_json": word}
            if "input" in block
            else {"type": "text_delta", "text": word}
        )
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None},
        "usage": {"output_tokens": call.completion_tokens},
    }
    yield {"type": "message_stop"}


def _write_data(event: Json | str) -> str:
    return f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n"


def _write_event(event: Json) -> str:
    return f"event: {event['type']}\n{_write_data(event)}"


def _answer_whole(call: ApiRequest, fields: Json) -> Response:
    call.has_ended = True
    return JSONResponse(fields)


def _answer_stream(
    call: ApiRequest, texts: Iterator[str], media_type: str = "text/event-stream"
) -> Response:
    async def send() -> AsyncIterator[str]:
        try:
            for text in texts:
                yield text
                await asyncio.sleep(0)
            call.has_ended = True
        finally:
            if not call.has_ended:
                call.is_gone.set()

    return StreamingResponse(send(), media_type=media_type)


# -- What it does instead.


def refuses(status: int, said: object = None, **headers: str) -> Fault:
    """`retry_after="2"` is the header Retry-After."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = said if said is not None else {"error": {"type": "api_error", "message": "as told"}}
    return lambda _: JSONResponse(body, status_code=status, headers=named)


def answers_bytes(data: bytes, media_type: str = "application/json") -> Fault:
    return lambda _: Response(data, media_type=media_type)


def is_silent(after: str = "") -> Fault:
    """Sends this much, and then nothing, until its caller leaves."""

    def stay(call: ApiRequest) -> Response:
        async def send() -> AsyncIterator[str]:
            try:
                yield after
                await asyncio.Event().wait()
            finally:
                call.is_gone.set()

        return StreamingResponse(send(), media_type="text/event-stream")

    return stay


def breaks_off(after: str) -> Fault:
    """Sends this much, and hangs up in the middle."""

    def cut(_: ApiRequest) -> Response:
        async def send() -> AsyncIterator[str]:
            yield after
            await asyncio.sleep(0)
            raise ConnectionError("cut")

        return StreamingResponse(send(), media_type="text/event-stream")

    return cut
