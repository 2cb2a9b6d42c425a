"""An HTTP API behind a provider service, a router before it: what comes back, what is billed
against the API's own ledger, what a failure means, and that the key stays where it is.
"""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client as Nats

from router import Client
from router.config import Settings
from router.providers.options import UpstreamTimes
from router.providers.service import ProviderService, serve_provider
from router.sdk.providers import InvocationFailed
from tests.support.beside import beside
from tests.support.model_apis import (
    CACHED,
    REQUEST_ID,
    Fault,
    ModelApis,
    answers_bytes,
    breaks_off,
    is_silent,
    refuses,
    serve_model_apis,
)
from tests.support.observability import LogLines, capture_log
from tests.support.provider_services import KEY, PATIENT, QUESTION, options_for, write_key
from tests.support.router_streams import read_usage
from tests.support.service import Running, a_router
from tests.support.waiting import until

ASKED: dict[str, Any] = {
    "tenant_id": "acme",
    "provider_id": "mine",
    "prompt": json.dumps(QUESTION),
    "parameters": {"api": "chat.completions"},
    "timeout": 120.0,
}
SAID = "you said hello there"
HASTY = UpstreamTimes(connect_s=30, first_byte_s=0.3, read_s=60)


@pytest.fixture
async def apis() -> AsyncIterator[ModelApis]:
    async with serve_model_apis() as apis:
        yield apis


@pytest.fixture
async def router(settings: Settings) -> AsyncIterator[Running]:
    async with a_router(settings) as router:
        yield router


@pytest.fixture
def lines() -> Iterator[LogLines]:
    with capture_log("debug") as lines:
        yield lines


@pytest.fixture
async def provider(
    router: Running, apis: ModelApis, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Running]:
    """A service that registers itself with the router; a test may name its kind and its times."""
    kind, times = getattr(request, "param", ("openai", PATIENT))
    options = options_for(kind, apis, key_file=write_key(tmp_path), times=times)
    ready: list[Any] = []
    service = ProviderService(options)
    serving = serve_provider(service, router.settings, lambda **told: ready.append(told))
    async with beside(serving):
        await until(lambda: bool(ready) and "mine" in list_entries(router))
        yield router


def list_entries(router: Running) -> Any:
    context = router.service._context
    assert context is not None
    return context.registry.get_all()


async def read_stream(client: Client, **asked: Any) -> tuple[list[str], Any]:
    chunks = [chunk async for chunk in client.invoke_stream(**{**ASKED, **asked})]
    assert chunks[-1].data == ""
    return [str(chunk.data) for chunk in chunks if chunk.data], chunks[-1].metadata


BOTH = [("openai", PATIENT), ("anthropic", PATIENT)]


@pytest.mark.parametrize("provider", BOTH, indirect=True, ids=["openai", "anthropic"])
async def test_an_answer_and_a_stream_are_billed_as_the_apis_ledger_says(
    provider: Running, client: Client, apis: ModelApis, nc: Nats
) -> None:
    whole = await client.invoke(**ASKED)
    texts, last = await read_stream(client)
    completion = json.loads(str(whole.body))
    assert completion["choices"][0]["message"]["content"] == SAID
    pieces = [json.loads(text)["choices"][0]["delta"].get("content") or "" for text in texts]
    assert "".join(pieces) == SAID
    for metadata in (whole.metadata, last):
        assert metadata["upstream_request_id"] == REQUEST_ID
        assert (metadata["finish_reason"], metadata["model"]) == ("stop", "small")
    events = await read_usage(nc, provider.settings)
    told = [(e["input_tokens"], e["cached_tokens"], e["output_tokens"]) for e in events]
    assert told == [(c.prompt_tokens, CACHED, c.completion_tokens) for c in apis.calls]


async def test_a_reader_that_leaves_ends_the_call_of_the_api_and_what_had_come_is_billed(
    provider: Running, client: Client, apis: ModelApis, nc: Nats
) -> None:
    first = {"choices": [{"index": 0, "delta": {"content": "you"}}], "model": "small"}
    apis.faults.append(is_silent(f"data: {json.dumps(first)}\n\n"))
    async with aclosing(client.invoke_stream(**ASKED)) as chunks:
        async for chunk in chunks:
            if chunk.data:
                break
    await until(lambda: apis.calls[0].is_gone.is_set())

    async def is_billed() -> bool:
        return len(await read_usage(nc, provider.settings)) == 1

    await until(is_billed)


async def test_a_rate_limit_of_the_api_closes_the_provider_for_that_tenant_alone(
    provider: Running, client: Client, apis: ModelApis
) -> None:
    apis.faults.append(refuses(429, retry_after="300"))
    first = await client.invoke(**ASKED)
    again = await client.invoke(**ASKED)
    assert (first.metadata["fault"], again.metadata["fault"]) == ("rate_limit", "rate_limit")
    assert first.metadata["retry_after_ms"] == "300000"
    assert len(apis.calls) == 1
    assert (await client.invoke(**{**ASKED, "tenant_id": "other"})).ok


@pytest.mark.parametrize(
    ("fault", "whose"),
    [
        (refuses(500), "service"),
        (refuses(400), "request"),
        (refuses(401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}), "service"),
        (answers_bytes(b"garbage"), "service"),
        (breaks_off('{"id": '), "service"),
    ],
    ids=["500", "400", "401", "garbage", "cut"],
)
async def test_what_fails_at_the_api_is_told_whole_and_streamed(
    provider: Running, client: Client, apis: ModelApis, fault: Fault, whose: str
) -> None:
    apis.faults += [fault, fault]
    response = await client.invoke(**ASKED)
    with pytest.raises(InvocationFailed) as failed:
        await read_stream(client)
    assert (response.error_code, response.metadata["fault"]) == ("extension_error", whose)
    assert (failed.value.code, failed.value.metadata["fault"]) == ("extension_error", whose)
    assert KEY not in f"{response.error_message}{failed.value}"


@pytest.mark.parametrize("provider", [("openai", HASTY)], indirect=True, ids=["hasty"])
async def test_an_api_that_is_silent_is_the_services_fault(
    provider: Running, client: Client, apis: ModelApis
) -> None:
    apis.faults.append(is_silent())
    response = await client.invoke(**ASKED)
    assert response.metadata["fault"] == "service"
    assert "silent for too long" in str(response.error_message)


async def test_the_key_reaches_the_api_alone(
    lines: LogLines, provider: Running, client: Client, apis: ModelApis, nc: Nats
) -> None:
    apis.faults += [refuses(401), refuses(400), breaks_off("data: {}\n\n")]
    for _ in range(4):
        await client.invoke(**ASKED)
    info = await nc.request("$SRV.INFO.mine", b"", timeout=60)
    told = f"{info.data!r}{list_entries(provider)}{lines.stream.getvalue()}"
    assert {call.headers["authorization"] for call in apis.calls} == {f"Bearer {KEY}"}
    assert '"mine"' in told
    assert KEY not in told
    assert list_entries(provider)["mine"].metadata == {
        "apis": ["chat.completions", "completions", "embeddings", "responses"],
        "models": apis.models,
    }
