"""What tenants that share a provider may do to each other, and what no error of an API may say."""

import asyncio
import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from router.providers import service
from router.sdk.extension import Extension, ProviderFailed, RateLimited
from router.sdk.extension.request import RequestFailed
from tests.support.model_apis import ModelApis, answers_bytes, is_silent, refuses
from tests.support.provider_services import (
    KEY,
    QUESTION,
    a_provider,
    asks,
    complete,
    figures,
    stream,
    write_key,
)
from tests.support.waiting import until


def ask_for(provider: Extension, tenant: str) -> "asyncio.Task[Any]":
    return asyncio.create_task(complete(provider, replace(asks(QUESTION), tenant_id=tenant)))


async def leave(*tasks: "asyncio.Task[Any]") -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task


async def test_a_tenant_whose_calls_hang_leaves_room_for_the_others(apis: ModelApis) -> None:
    apis.faults += [is_silent()] * 2
    async with a_provider("openai", apis, concurrency=4) as provider:
        hanging = [ask_for(provider, "flood") for _ in range(20)]
        await until(lambda: len(apis.calls) == 2)
        assert (await ask_for(provider, "quiet")).completion_tokens
        assert Counter(task.done() for task in hanging) == {False: 20}
        await leave(*hanging)
        assert (await ask_for(provider, "flood")).completion_tokens


async def test_a_tenant_of_whom_too_many_wait_is_told_to_come_again(
    apis: ModelApis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_WAITING", 2)
    apis.faults += [is_silent()]
    async with a_provider("openai", apis, concurrency=1) as provider:
        hanging = [ask_for(provider, "flood") for _ in range(3)]
        await until(lambda: len(apis.calls) == 1)
        with pytest.raises(RateLimited) as limited:
            await ask_for(provider, "flood")
        await leave(*hanging)
    assert limited.value.retry_after_ms == 1000


@pytest.mark.parametrize("api", ["chat.completions", "embeddings"])
async def test_a_whole_answer_may_come_in_pieces_for_an_asker_that_may_leave(
    apis: ModelApis, api: str
) -> None:
    """Together they are its text, in parts that fit into messages."""
    words = "word " * 30_000
    body = QUESTION if api == "chat.completions" else {"model": "small", "input": ["a"]}
    body = {**body, "messages": [{"role": "user", "content": words}]}
    async with a_provider("openai", apis) as provider:
        whole = await complete(provider, asks(body, api))
        texts, told, last = await stream(provider, asks(body, api, stream=False))
    assert "stream" not in apis.calls[1].body
    assert json.loads("".join(texts)) == whole.output
    assert max(map(len, texts)) <= service.PART_LETTERS
    assert (figures(last), last.metadata, last.output) == (figures(whole), whole.metadata, "")
    assert (len(texts) > 1, told) == (api == "chat.completions", [])


async def test_embeddings_are_never_streamed(apis: ModelApis) -> None:
    asked = asks({"model": "small", "input": ["a"]}, "embeddings")
    for kind in ("openai", "echo"):
        async with a_provider(kind, apis if kind == "openai" else None) as provider:
            texts, _, last = await stream(provider, asked)
        assert json.loads("".join(texts))["object"] == "list"
        assert last.completion_tokens == 0


@pytest.mark.parametrize("name", ["previous_response_id", "conversation", "background"])
async def test_what_an_api_keeps_under_the_shared_key_is_not_for_a_tenant_to_name(
    apis: ModelApis, name: str
) -> None:
    asked = asks({"model": "small", "input": "hi", name: "resp_of-another"}, "responses")
    async with a_provider("openai", apis) as provider:
        for ask in (complete, stream):
            with pytest.raises(RequestFailed, match=name) as failed:
                await ask(provider, asked)
            assert failed.value.fault == "request"
    assert apis.calls == []


async def test_an_error_that_quotes_the_key_is_not_passed_on(
    apis: ModelApis, tmp_path: Path
) -> None:
    said = {"error": {"message": f"bad header: Bearer {KEY}", "code": 400}}
    apis.faults += [
        refuses(400, said),
        answers_bytes(f'data: {{"error": "{KEY}"}}\n\n'.encode(), "text/event-stream"),
    ]
    async with a_provider("openai", apis, key_file=write_key(tmp_path)) as provider:
        for ask in (complete, stream):
            with pytest.raises(ProviderFailed, match="quotes this provider's key") as failed:
                await ask(provider, asks(QUESTION))
            assert KEY not in repr(failed.value)
