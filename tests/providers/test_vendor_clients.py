"""The vendors' own clients read what the tests' stand-in answers, and what our kinds make of it: so
no mapper here agrees with a stand-in of the same hand alone.
"""

import json
from typing import Any

import anthropic
import openai
import pydantic
import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from openai.types import Completion, CreateEmbeddingResponse
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

from router.providers.api_call import ApiCall
from router.providers.kinds.anthropic_request import make_request
from tests.support.model_apis import ARGUMENTS, CACHED, WRITTEN, ModelApis, refuses
from tests.support.provider_services import (
    KEY,
    QUESTION,
    a_provider,
    asks,
    complete,
    read_events,
    stream,
)

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
# what no field of a vendor's model may be missing for, or of another kind
STRICT = {"strict": True}


def an_openai(apis: ModelApis) -> Any:
    return openai.AsyncOpenAI(base_url=f"{apis.url}/v1", api_key=KEY, max_retries=0)


def an_anthropic(apis: ModelApis) -> Any:
    return anthropic.AsyncAnthropic(base_url=apis.url, api_key=KEY, max_retries=0)


async def test_openais_client_reads_the_stand_in(apis: ModelApis) -> None:
    async with an_openai(apis) as client:
        whole = await client.chat.completions.create(**QUESTION)
        chunks = [
            chunk
            async for chunk in await client.chat.completions.create(
                **QUESTION, stream=True, stream_options={"include_usage": True}
            )
        ]
        text = await client.completions.create(model="small", prompt="hello")
        vectors = await client.embeddings.create(
            model="small", input=["a", "b"], encoding_format="float"
        )
        response = await client.responses.create(model="small", input="hello")
        events = [
            event
            async for event in await client.responses.create(
                model="small", input="hello", stream=True
            )
        ]
        models = [model.id async for model in client.models.list()]
    assert whole.choices[0].message.content == "you said hello there"
    assert whole.usage.prompt_tokens_details.cached_tokens == CACHED
    said = [c.choices[0].delta.content or "" for c in chunks if c.choices]
    assert ("".join(said), chunks[-1].usage) == ("you said hello there", whole.usage)
    assert text.choices[0].text == response.output_text == "you said hello"
    assert [len(one.embedding) for one in vectors.data] == [3, 3]
    assert events[-1].response.usage == response.usage
    assert models == apis.models


async def test_anthropics_client_reads_the_stand_in(apis: ModelApis) -> None:
    async with an_anthropic(apis) as client:
        whole = await client.messages.create(max_tokens=9, **QUESTION)
        async with client.messages.stream(max_tokens=9, **QUESTION) as stream_:
            streamed = await stream_.get_final_message()
        used = await client.messages.create(
            max_tokens=9,
            tools=[{"name": "weather", "input_schema": {"type": "object"}}],
            **QUESTION,
        )
    assert whole.content[0].text == streamed.content[0].text == "you said hello there"
    assert whole.usage.input_tokens == streamed.usage.input_tokens
    assert whole.usage.output_tokens == streamed.usage.output_tokens
    assert whole.usage.cache_creation_input_tokens == WRITTEN
    assert (used.stop_reason, used.content[0].input) == ("tool_use", ARGUMENTS)


async def test_the_vendors_clients_see_the_stand_ins_errors(apis: ModelApis) -> None:
    apis.faults += [refuses(429, retry_after="7"), refuses(529)]
    async with an_openai(apis) as client, an_anthropic(apis) as other:
        with pytest.raises(openai.RateLimitError):
            await client.chat.completions.create(**QUESTION)
        with pytest.raises(anthropic.APIStatusError):
            await other.messages.create(max_tokens=9, **QUESTION)


@pytest.mark.parametrize("kind", ["openai", "anthropic", "ollama", "echo"])
@pytest.mark.parametrize("tools", [[], [TOOL]], ids=["text", "tools"])
async def test_openais_models_read_what_every_kind_answers(
    apis: ModelApis, kind: str, tools: list[Any]
) -> None:

    asked = asks({**QUESTION, **({"tools": tools} if tools else {})})
    async with a_provider(kind, apis if kind != "echo" else None) as provider:
        whole = await complete(provider, asked)
        texts, _, _ = await stream(provider, asked)
    completion = ChatCompletion.model_validate(whole.output, **STRICT)
    chunks = [ChatCompletionChunk.model_validate(event) for event in read_events(texts)]
    choice = completion.choices[0]
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert said == (choice.message.content or "")
    assert [c.choices[0].finish_reason for c in chunks][-1] == choice.finish_reason
    if tools and kind != "echo":
        written = [d for c in chunks for d in c.choices[0].delta.tool_calls or []]
        arguments = "".join(one.function.arguments or "" for one in written)
        (call,) = choice.message.tool_calls
        assert json.loads(arguments) == json.loads(call.function.arguments) == ARGUMENTS
        assert written[0].function.name == call.function.name == "weather"


@pytest.mark.parametrize(
    ("api", "body"),
    [
        ("completions", {"model": "small", "prompt": "hello"}),
        ("embeddings", {"model": "small", "input": ["a", "b"]}),
        ("responses", {"model": "small", "input": "hello"}),
    ],
)
async def test_openais_models_read_the_other_apis_of_an_echo(api: str, body: Any) -> None:

    models = {
        "completions": Completion,
        "embeddings": CreateEmbeddingResponse,
        "responses": Response,
    }
    async with a_provider("echo") as provider:
        whole = await complete(provider, asks(body, api))
        texts, _, _ = await stream(provider, asks(body, api)) if api != "embeddings" else ([], 0, 0)
    models[api].model_validate(whole.output)
    event = pydantic.TypeAdapter(ResponseStreamEvent if api == "responses" else Completion)
    for fields in read_events(texts):
        for choice in fields.get("choices", ()):
            # null until the last one, which the client's type does not say
            choice["finish_reason"] = choice["finish_reason"] or "stop"
        event.validate_python(fields)
    assert texts or api == "embeddings"


def test_anthropics_parameters_are_what_a_chat_is_mapped_to() -> None:
    """Its client's own types judge the request."""

    body = {
        "model": "large",
        "messages": [
            {"role": "system", "content": "be short"},
            {"role": "user", "content": [{"type": "text", "text": "what is this?"}, AN_IMAGE]},
            {"role": "assistant", "content": None, "tool_calls": [A_CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
            {"role": "user", "content": "and?"},
        ],
        "tools": [TOOL],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "stop": "END",
        "temperature": 1.5,
        "user": "u-1",
        "seed": 7,
    }
    made = make_request(ApiCall(api="chat.completions", body=body))
    pydantic.TypeAdapter(MessageCreateParamsNonStreaming).validate_python(made)
    assert [turn["role"] for turn in made["messages"]] == ["user", "assistant", "user"]
    assert [block["type"] for block in made["messages"][-1]["content"]] == ["tool_result", "text"]
    assert (made["system"], made["temperature"], "seed" in made) == ("be short", 1.0, False)
    assert made["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    assert made["stop_sequences"] == ["END"]
    assert made["metadata"] == {"user_id": "u-1"}


AN_IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
A_CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Oslo"}'},
}
