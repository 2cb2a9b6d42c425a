"""A chat in OpenAI's shape as a request to Anthropic's `/v1/messages`.

    system, developer         `system`
    tool_calls, role tool     blocks `tool_use` and `tool_result`; messages of one role become one
    image_url                 a block `image`, by its data or its address
    stop, tools, tool_choice, max_completion_tokens, user      by their names there

What would change the shape of the answer (`n`, `logprobs`, `response_format`) is refused. Hints that
this API does not know (`seed`, `frequency_penalty`, …) are left out; its own names go through.
"""

from __future__ import annotations

from typing import Any

from router.providers.api_call import ApiCall, refuse_call
from router.providers.kinds import Json
from router.providers.kinds.chat import (
    read_all_text,
    read_functions,
    read_image,
    read_messages,
    read_parts,
    read_text,
    read_tool_calls,
    require_one_choice,
)

USUAL_MAX_TOKENS = 4096  # this API answers nothing without a bound
HOTTEST = 1.0  # OpenAI's scale goes to 2
# as they are, where they are there
SAME = ("model", "top_p", "top_k", "thinking", "temperature")
SYSTEM = ("system", "developer")
CHOICES = {"auto": "auto", "required": "any", "none": "none"}


def make_request(call: ApiCall) -> Json:
    """Raises RequestFailed: the request's fault."""
    body = call.body
    require_one_choice(body)
    if body.get("response_format") not in (None, {"type": "text"}):
        refuse_call("response_format", "this provider answers with text; ask for JSON in words")
    request = {name: body[name] for name in SAME if body.get(name) is not None}
    if isinstance(heat := request.get("temperature"), int | float):
        request["temperature"] = min(heat, HOTTEST)
    request["max_tokens"] = (
        body.get("max_completion_tokens") or body.get("max_tokens") or USUAL_MAX_TOKENS
    )
    request |= _make_conversation(read_messages(body))
    return {**request, **_make_tools(body), **_make_rest(body)}


def _make_rest(body: Json) -> Json:
    rest: Json = {}
    if (stop := body.get("stop")) is not None:
        rest["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    if isinstance(user := body.get("user"), str):
        rest["metadata"] = {"user_id": user}
    return rest


def _make_conversation(messages: list[Json]) -> Json:
    system = [read_all_text(one.get("content")) for one in messages if one["role"] in SYSTEM]
    turns: list[Json] = []
    for message in messages:
        if message["role"] not in SYSTEM:
            _add(turns, *_make_turn(message))
    return {**({"system": "\n\n".join(system)} if system else {}), "messages": turns}


def _add(turns: list[Json], role: str, blocks: list[Json]) -> None:
    """The results of several tools stand in one message, as this API wants it."""
    if turns and turns[-1]["role"] == role:
        turns[-1]["content"].extend(blocks)
    else:
        turns.append({"role": role, "content": blocks})


def _make_turn(message: Json) -> tuple[str, list[Json]]:
    role = message["role"]
    if role == "user":
        return role, [_make_block(part) for part in read_parts(message.get("content"))]
    if role == "assistant":
        return role, _make_own_blocks(message)
    if role != "tool":
        refuse_call("messages.role", "should be system, developer, user, assistant or tool")
    return "user", [_make_result(message)]


def _make_own_blocks(message: Json) -> list[Json]:
    texts = [read_text(part) for part in read_parts(message.get("content"))]
    uses = [
        {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
        for call_id, name, arguments in read_tool_calls(message)
    ]
    # an empty text is refused there
    return [*({"type": "text", "text": text} for text in texts if text), *uses]


def _make_result(message: Json) -> Json:
    return {
        "type": "tool_result",
        "tool_use_id": str(message.get("tool_call_id", "")),
        "content": read_all_text(message.get("content")),
    }


def _make_block(part: Json) -> Json:
    if part.get("type") != "image_url":
        return {"type": "text", "text": read_text(part)}
    media_type, data = read_image(part)
    source: dict[str, Any] = (
        {"type": "base64", "media_type": media_type, "data": data}
        if media_type
        else {"type": "url", "url": data}
    )
    return {"type": "image", "source": source}


def _make_tools(body: Json) -> Json:
    tools = [
        {
            "name": function["name"],
            **({"description": text} if (text := function.get("description")) else {}),
            "input_schema": function.get("parameters") or {"type": "object", "properties": {}},
        }
        for function in read_functions(body)
    ]
    if not tools:
        return {}
    choice = _make_choice(body)
    return {"tools": tools, **({"tool_choice": choice} if choice else {})}


def _make_choice(body: Json) -> Json:
    asked = body.get("tool_choice")
    one_at_a_time = body.get("parallel_tool_calls") is False
    if isinstance(asked, dict):
        function = asked.get("function")
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(name, str):
            refuse_call("tool_choice", "should name a function")
        choice: Json = {"type": "tool", "name": name}
    elif asked is None:
        choice = {"type": "auto"} if one_at_a_time else {}
    elif isinstance(asked, str) and asked in CHOICES:
        choice = {"type": CHOICES[asked]}
    else:
        refuse_call("tool_choice", "should be auto, required, none or a function")
    if one_at_a_time and choice["type"] != "none":
        choice["disable_parallel_tool_use"] = True
    return choice
