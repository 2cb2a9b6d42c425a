"""OpenAI's shapes, as far as the other kinds build them and read them: a completion of a chat, its
chunks, its usage.

https://platform.openai.com/docs/api-reference/chat is what they follow.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import orjson
from msgspec import Struct

from router.contracts.told_usage import find_told
from router.core.clock import wall
from router.core.ids import is_opaque
from router.providers.api_call import refuse_call
from router.providers.kinds import ApiEvent, Json
from router.sdk.extension import Usage

DETAILS = ("prompt_tokens_details", "input_tokens_details")


class ChatAnswer(Struct, frozen=True):
    """One answer that is being built: its id, its model, its time."""

    model: str
    id: str
    created: int

    @classmethod
    def begin(cls, model: str) -> ChatAnswer:
        return cls(model, f"chatcmpl-{uuid.uuid4().hex}", int(wall()))

    def make_completion(self, message: Json, finish_reason: str, usage: Usage) -> Json:
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": None, "refusal": None, **message},
            "logprobs": None,
            "finish_reason": finish_reason,
        }
        return {**self._head("chat.completion"), "choices": [choice], "usage": make_usage(usage)}

    def make_chunk(self, delta: Json, finish_reason: str | None = None) -> ApiEvent:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return ApiEvent({**self._head("chat.completion.chunk"), "choices": [choice]})

    def _head(self, kind: str) -> Json:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


def make_usage(usage: Usage) -> Json:
    """The object `usage` of an answer."""
    prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens or 0},
    }


def read_usage(model: object, told: object) -> Usage:
    """What an answer tells of its use. What is not legal is as if it were absent."""
    usage: Mapping[str, Any] = told if isinstance(told, dict) else {}
    details = next((part for name in DETAILS if isinstance(part := usage.get(name), dict)), {})
    # a cost in another's currency is no cost here
    fields = {**usage, "cached_tokens": details.get("cached_tokens"), "model": model}
    legal = find_told({name: value for name, value in fields.items() if name != "cost"})
    counts = {name: int(text) for name, text in legal.items() if name.endswith("_tokens")}
    if counts.get("cached_tokens", 0) > counts.get("prompt_tokens", 0):
        del counts["cached_tokens"]
    return Usage(model=legal.get("model"), **counts)


def find_whole_text(output: Json) -> str:
    """The text of a completion, for a caller that asked with a plain prompt."""
    choice = _first_choice(output)
    message = choice.get("message")
    text = message.get("content") if isinstance(message, dict) else None
    return text if isinstance(text, str) else ""


def find_text(fields: Json) -> str:
    """The text that a chunk adds."""
    delta = _first_choice(fields).get("delta")
    text = delta.get("content") if isinstance(delta, dict) else None
    return text if isinstance(text, str) else ""


def find_finish_reason(fields: Json) -> str | None:
    reason = _first_choice(fields).get("finish_reason")
    return reason if isinstance(reason, str) and is_opaque(reason) else None


def _first_choice(fields: Json) -> Json:
    choices = fields.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    return choice if isinstance(choice, dict) else {}


# -- What a chat asks, read for the kinds that map it. Each raises RequestFailed: the request's
# fault, which names the place and never the value.


def read_messages(body: Json) -> list[Json]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        refuse_call("messages", "should be a list of at least one")
    if not all(isinstance(one, dict) and isinstance(one.get("role"), str) for one in messages):
        refuse_call("messages", "should be objects with a role")
    return messages


def read_parts(content: object) -> list[Json]:
    """The parts of a message's content; text is one part, None is none."""
    if content is None:
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        refuse_call("messages.content", "should be text, or a list of parts")
    return content


def read_text(part: Json) -> str:
    text = part.get("text")
    if part.get("type") != "text" or not isinstance(text, str):
        refuse_call("messages.content", "this provider takes text and images alone")
    return text


def read_all_text(content: object) -> str:
    return "".join(read_text(part) for part in read_parts(content))


def read_image(part: Json) -> tuple[str, str]:
    """(media type, base64) of an image inside the message, or ("", its address)."""
    image = part.get("image_url")
    url = image.get("url") if isinstance(image, dict) else image
    if not isinstance(url, str):
        refuse_call("messages.content.image_url", "should have a url")
    if not url.startswith("data:"):
        return "", url
    head, _, data = url.removeprefix("data:").partition(",")
    media_type, _, encoding = head.partition(";")
    if encoding != "base64" or not media_type.startswith("image/"):
        refuse_call("messages.content.image_url", "should be data:image/…;base64,…")
    return media_type, data


def read_tool_calls(message: Json) -> list[tuple[str, str, Json]]:
    """(id, name, arguments) of each call that an assistant's message made."""
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        refuse_call("messages.tool_calls", "should be a list")
    return [_read_tool_call(call) for call in calls]


def _read_tool_call(call: object) -> tuple[str, str, Json]:
    function = call.get("function") if isinstance(call, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict) or not isinstance(name, str):
        refuse_call("messages.tool_calls", "should be calls of functions")
    try:
        arguments = orjson.loads(function.get("arguments") or "{}")
    except (orjson.JSONDecodeError, TypeError):
        arguments = None
    if not isinstance(arguments, dict):
        refuse_call("messages.tool_calls.function.arguments", "should be the JSON of an object")
    return str(call.get("id", "")), name, arguments


def make_tool_call(call_id: str, name: str, arguments: str) -> Json:
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def read_functions(body: Json) -> list[Json]:
    """The functions among the tools, as {name, description?, parameters?}."""
    tools = body.get("tools") or []
    if not isinstance(tools, list):
        refuse_call("tools", "should be a list")
    functions = [tool.get("function") if isinstance(tool, dict) else None for tool in tools]
    if not all(
        isinstance(function, dict) and isinstance(function.get("name"), str)
        for function in functions
    ):
        refuse_call("tools", "should be functions with a name")
    return [function for function in functions if isinstance(function, dict)]


def require_one_choice(body: Json) -> None:
    """Refuse what would need another shape of the answer than is built here."""
    if body.get("n") not in (None, 1):
        refuse_call("n", "this provider answers with one choice")
    if body.get("logprobs"):
        refuse_call("logprobs", "this provider tells none")
    if body.get("modalities") not in (None, ["text"]):
        refuse_call("modalities", "this provider answers with text")
