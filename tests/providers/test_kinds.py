"""What each kind sends to its API, and tells of the answer, against the stand-in's ledger."""

from typing import Any

import pytest

from router.providers.options import KINDS
from router.sdk.extension.request import RequestFailed
from tests.support.model_apis import (
    CACHED,
    REQUEST_ID,
    ModelApis,
    answers_bytes,
    breaks_off,
)
from tests.support.provider_services import (
    QUESTION,
    a_provider,
    asks,
    complete,
    figures,
    read_events,
    stream,
)

REAL = [kind for kind in KINDS if kind != "echo"]
SAID = "you said hello there"


def told_by(apis: ModelApis, kind: str) -> tuple[str, int, int, int | None]:
    """The last line of the ledger. Ollama tells nothing of a cache."""
    call = apis.calls[-1]
    cached = None if kind == "ollama" else CACHED
    return "small", call.prompt_tokens, call.completion_tokens, cached


@pytest.mark.parametrize("kind", REAL)
async def test_a_whole_answer_has_openais_shape_and_the_ledgers_tokens(
    apis: ModelApis, kind: str
) -> None:
    async with a_provider(kind, apis) as provider:
        output = await complete(provider, asks(QUESTION))
    fields: Any = output.output
    assert fields["object"] == "chat.completion"
    assert fields["choices"][0]["message"]["content"] == SAID
    assert fields["usage"]["prompt_tokens"] == output.prompt_tokens
    assert figures(output) == told_by(apis, kind)
    assert output.metadata == {"upstream_request_id": REQUEST_ID, "finish_reason": "stop"}


@pytest.mark.parametrize("kind", REAL)
async def test_a_stream_is_one_event_in_each_piece_and_ends_with_the_figures(
    apis: ModelApis, kind: str
) -> None:
    async with a_provider(kind, apis) as provider:
        texts, told, last = await stream(provider, asks(QUESTION))
    events = read_events(texts)
    assert {event["object"] for event in events} == {"chat.completion.chunk"}
    assert "".join(e["choices"][0]["delta"].get("content") or "" for e in events) == SAID
    assert all(event["choices"] and "usage" not in event for event in events)
    assert (last.output, figures(last)) == ("", told_by(apis, kind))
    assert figures(told[-1]) == figures(last)
    assert last.metadata == {"upstream_request_id": REQUEST_ID, "finish_reason": "stop"}


async def test_what_anthropic_counts_of_the_input_is_told_before_the_first_piece(
    apis: ModelApis,
) -> None:
    """A stream that is cut is billed by it."""
    async with a_provider("anthropic", apis) as provider:
        _, (first, *_), _ = await stream(provider, asks(QUESTION))
    assert (first.prompt_tokens, first.cached_tokens) == (apis.calls[0].prompt_tokens, CACHED)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_plain_prompt_is_a_chat_and_its_answer_text(apis: ModelApis, kind: str) -> None:
    said = "hello there" if kind == "echo" else SAID
    plain = asks("hello there", None, model="small", temperature=0.5)
    async with a_provider(kind, apis) as provider:
        whole = await complete(provider, plain)
        texts, _, last = await stream(provider, plain)
    assert (whole.output, "".join(texts), last.output) == (said, said, "")
    if kind != "echo":
        body = apis.calls[0].body
        assert body["messages"][0]["role"] == "user"
        assert body.get("temperature", body.get("options", {}).get("temperature")) == 0.5


@pytest.mark.parametrize(
    ("api", "body", "path"),
    [
        ("completions", {"model": "small", "prompt": "hi", "best_of": 1}, "/v1/completions"),
        ("embeddings", {"model": "small", "input": ["a"], "dimensions": 3}, "/v1/embeddings"),
        ("responses", {"model": "small", "input": "hi", "store": False}, "/v1/responses"),
    ],
)
async def test_the_other_apis_of_openai_pass_through(
    apis: ModelApis, api: str, body: dict[str, Any], path: str
) -> None:
    async with a_provider("openai", apis) as provider:
        whole = await complete(provider, asks(body, api))
        call = apis.calls[-1]
        texts, _, last = (
            await stream(provider, asks(body, api))
            if api != "embeddings"
            else (
                ["{}"],
                [],
                whole,
            )
        )
    assert (call.path, call.body) == (path, body)
    assert figures(whole)[:3] == ("small", call.prompt_tokens, call.completion_tokens)
    assert figures(whole) == figures(last)
    assert texts


async def test_the_events_of_responses_keep_their_types(apis: ModelApis) -> None:
    body = {"model": "small", "input": "hi"}
    async with a_provider("openai", apis) as provider:
        texts, _, _ = await stream(provider, asks(body, "responses"))
    types = [event["type"] for event in read_events(texts)]
    assert (types[0], types[-1]) == ("response.created", "response.completed")
    assert "stream_options" not in apis.calls[0].body


@pytest.mark.parametrize("kind", ["anthropic", "ollama"])
async def test_an_api_that_is_not_spoken_is_the_requests_fault(apis: ModelApis, kind: str) -> None:
    async with a_provider(kind, apis) as provider:
        with pytest.raises(RequestFailed, match=r"chat\.completions alone") as failed:
            await complete(provider, asks({"model": "small", "input": "a"}, "embeddings"))
    assert (failed.value.status, failed.value.fault, apis.calls) == (400, "request", [])


async def test_what_comes_with_the_request_cannot_choose_how_it_is_streamed(
    apis: ModelApis,
) -> None:
    body = {**QUESTION, "stream": True, "stream_options": {"include_usage": False}, "x_new": [1]}
    async with a_provider("openai", apis) as provider:
        await complete(provider, asks(body))
        await stream(provider, asks(body))
    whole, streamed = (call.body for call in apis.calls)
    assert whole == {**QUESTION, "x_new": [1]}
    assert (streamed["stream"], streamed["stream_options"]) == (True, {"include_usage": True})


async def test_a_strict_server_is_not_asked_for_the_usage_of_a_stream(apis: ModelApis) -> None:
    async with a_provider("openai", apis, asks_usage=False) as provider:
        texts, _, last = await stream(provider, asks(QUESTION))
    assert "stream_options" not in apis.calls[0].body
    assert (figures(last), bool(texts)) == (("small", None, None, None), True)


async def test_what_a_result_of_a_tool_says_reaches_ollama_by_the_tools_name(
    apis: ModelApis,
) -> None:
    call = {"id": "c-1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "hi"}, AN_IMAGE]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c-1", "content": "sunny"},
    ]
    body = {"model": "small", "messages": messages, "max_tokens": 5}
    body["response_format"] = {"type": "json_object"}
    async with a_provider("ollama", apis) as provider:
        await complete(provider, asks(body))
    asked = apis.calls[0].body
    assert [message.get("tool_name") for message in asked["messages"]] == [None, None, "weather"]
    assert asked["messages"][0]["images"] == ["aGk="]
    assert (asked["options"], asked["format"]) == ({"num_predict": 5}, "json")


AN_IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
CHUNK = 'data: {"model": "small", "choices": [{"index": 0, "delta": {"content": "a"}}]}\n\n'
STARTED = 'data: {"type": "message_start", "message": {"model": "small", "usage": {"input_tokens": 5}}}\n\n'


@pytest.mark.parametrize(
    ("kind", "before"),
    [("openai", CHUNK), ("anthropic", STARTED), ("ollama", '{"message": {"content": "a"}}\n')],
)
async def test_a_stream_that_ends_early_is_no_answer(
    apis: ModelApis, kind: str, before: str
) -> None:
    apis.faults += [answers_bytes(before.encode()), breaks_off(before)]
    async with a_provider(kind, apis) as provider:
        for why in ("before its end", "broke off"):
            with pytest.raises(Exception, match=why) as failed:
                await stream(provider, asks(QUESTION))
            assert type(failed.value).__name__ == "ProviderFailed"


@pytest.mark.parametrize(
    ("kind", "event", "name"),
    [
        ("openai", 'data: {"error": {"message": "no", "code": 429}}\n\n', "RateLimited"),
        ("openai", 'data: {"error": {"type": "server_error"}}\n\n', "ProviderFailed"),
        (
            "anthropic",
            'data: {"type": "error", "error": {"type": "overloaded_error"}}\n\n',
            "ProviderFailed",
        ),
        (
            "anthropic",
            'data: {"type": "error", "error": {"type": "invalid_request_error"}}\n\n',
            "RequestRefused",
        ),
        ("ollama", '{"error": "no such thing"}\n', "ProviderFailed"),
        ("openai", "data: [1]\n\n", "ProviderFailed"),
        ("openai", "data: nonsense\n\n", "ProviderFailed"),
        ("openai", "data: \xff\n\n", "ProviderFailed"),
    ],
)
async def test_an_error_inside_a_stream_has_its_class(
    apis: ModelApis, kind: str, event: str, name: str
) -> None:
    apis.faults.append(answers_bytes(event.encode("latin-1"), "text/event-stream"))
    async with a_provider(kind, apis) as provider:
        with pytest.raises(Exception, match=r".") as failed:
            await stream(provider, asks(QUESTION))
    assert type(failed.value).__name__ == name


async def test_figures_that_are_not_legal_are_absent(apis: ModelApis) -> None:
    usage = '{"prompt_tokens": -5, "completion_tokens": 1e99, "cost": 7}'
    answer = f'{{"model": "a b", "choices": [], "usage": {usage}}}'
    apis.faults.append(answers_bytes(answer.encode()))
    async with a_provider("openai", apis) as provider:
        output = await complete(provider, asks(QUESTION))
    assert (figures(output), output.cost) == ((None, None, None, None), None)
