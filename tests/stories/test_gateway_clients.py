"""OpenAI's own client, unchanged, asks a gateway; a provider service answers behind the router."""

from collections.abc import AsyncIterator

import openai
import pytest
from openai import AsyncOpenAI

from router.config import Settings
from router.policies.followed import SAMPLE_POLICIES
from router.providers.service import ProviderService, serve_provider
from tests.support.beside import beside
from tests.support.gateway import Gateway, a_gateway, wait_for_provider
from tests.support.provider_services import options_for
from tests.support.router_streams import read_usage
from tests.support.service import a_router, settings_for
from tests.support.waiting import until

MODEL = "router/echo"


@pytest.fixture
def settings(nats_url: str, prefix: str) -> Settings:
    return settings_for(nats_url, prefix, gateway__port=0, gateway__pages_port=0)


@pytest.fixture
async def gateway(settings: Settings) -> AsyncIterator[Gateway]:
    service = ProviderService(options_for("echo", name="echo", timeout_ms=20_000))
    async with (
        a_router(settings, policies=SAMPLE_POLICIES),
        beside(serve_provider(service, settings, lambda **_: None)),
        a_gateway(settings) as gateway,
    ):
        await wait_for_provider(gateway, "echo")
        yield gateway


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(
        base_url=f"{gateway.url}/v1", api_key=gateway.key, max_retries=0
    ) as client:
        yield client


async def test_a_whole_chat(client: AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "hello there"}]
    )
    assert answer.choices[0].message.content == "hello there"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (2, 2)


async def test_a_streamed_chat_with_its_tokens(client: AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(
        model=f"{MODEL}/echo-1",
        messages=[{"role": "user", "content": "one two three"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == "one two three"
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 6


async def test_completions_embeddings_and_responses(client: AsyncOpenAI) -> None:
    completion = await client.completions.create(model=MODEL, prompt="once upon")
    vectors = await client.embeddings.create(model=MODEL, input=["one", "two"])
    response = await client.responses.create(model=MODEL, input="good day")
    assert completion.choices[0].text == "once upon"
    assert [len(vector.embedding) for vector in vectors.data] == [8, 8]
    assert response.output_text == "good day"


async def test_a_streamed_response_is_typed_events(client: AsyncOpenAI) -> None:
    stream = await client.responses.create(model=MODEL, input="good day", stream=True)
    events = [event async for event in stream]
    assert events[0].type == "response.created"
    assert events[-1].type == "response.completed"


async def test_models_are_the_policies(client: AsyncOpenAI) -> None:
    names = {model.id async for model in client.models.list()}
    assert {MODEL, "router/default"} <= names
    assert (await client.models.retrieve(MODEL)).id == MODEL


async def test_errors_are_the_clients_own_classes(client: AsyncOpenAI, gateway: Gateway) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        await client.chat.completions.create(model="gpt-9", messages=[])
    assert missing.value.code == "model_not_found"
    stranger = AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="rk_wrong", max_retries=0)
    with pytest.raises(openai.AuthenticationError):
        await stranger.models.list()
    with pytest.raises(openai.BadRequestError):
        await client.chat.completions.create(model=MODEL, messages=[], n=3)


async def test_each_call_is_one_usage_event_with_the_providers_tokens(
    client: AsyncOpenAI, settings: Settings, nc: object
) -> None:
    messages = [{"role": "user", "content": "hello there"}]
    for is_stream in (False, True):
        answer = await client.chat.completions.create(  # type: ignore[call-overload]
            model=MODEL, messages=messages, stream=is_stream
        )
        if is_stream:
            async for _ in answer:
                pass

    async def are_metered() -> bool:
        return len(await read_usage(nc, settings)) == 2

    await until(are_metered)
    events = await read_usage(nc, settings)
    assert {(event["provider_id"], event["status"]) for event in events} == {("echo", "success")}
