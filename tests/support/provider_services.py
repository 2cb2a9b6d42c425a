"""Provider services as a test asks them: without a broker, or as the router's invocations do."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from router.contracts.provider_call import STREAM_HEADER
from router.providers.options import ProviderOptions, UpstreamTimes
from router.providers.service import ProviderService
from router.sdk.extension import Extension, Invocation, Output, Usage
from tests.support.model_apis import ModelApis

Json = dict[str, Any]

KEY = "sk-never-shown-0123456789"
# a busy machine is slow, and nothing here waits for it
PATIENT = UpstreamTimes(connect_s=30, first_byte_s=60, read_s=60)
PATHS = {"openai": "/v1", "anthropic": "", "ollama": "", "echo": None}
QUESTION: Json = {"model": "small", "messages": [{"role": "user", "content": "hello there"}]}


def write_key(directory: Path, key: str = KEY) -> Path:
    file = directory / "api.key"
    file.write_text(f"{key}\n")
    file.chmod(0o600)
    return file


def options_for(kind: str, apis: ModelApis | None = None, **given: Any) -> ProviderOptions:
    path = PATHS[kind]
    url = None if apis is None or path is None else f"{apis.url}{path}"
    return ProviderOptions(
        **{"name": "mine", "kind": kind, "base_url": url, "times": PATIENT, **given}
    )


@asynccontextmanager
async def a_provider(
    kind: str, apis: ModelApis | None = None, **given: Any
) -> AsyncIterator[Extension]:
    async with ProviderService(options_for(kind, apis, **given)).open() as extension:
        yield extension


def asks(body: Json | str, api: str | None = "chat.completions", **rest: Any) -> Invocation:
    """A plain prompt where `api` is None."""
    prompt = body if isinstance(body, str) else json.dumps(body)
    parameters: Mapping[str, Any] = {} if api is None else {"api": api}
    return Invocation.from_prompt(prompt, parameters={**parameters, **rest})


async def complete(extension: Extension, asked: Invocation) -> Output:
    (output,) = [piece async for piece in extension.function(asked)]
    assert isinstance(output, Output)
    return output


async def stream(extension: Extension, asked: Invocation) -> tuple[list[str], list[Usage], Output]:
    """Its pieces, what it told meanwhile, and its last word."""
    pieces = [
        piece async for piece in extension.function(replace(asked, headers={STREAM_HEADER: "true"}))
    ]
    *others, last = pieces
    assert isinstance(last, Output)
    texts = [piece for piece in others if isinstance(piece, str)]
    return texts, [piece for piece in others if isinstance(piece, Usage)], last


def read_events(texts: list[str]) -> list[Json]:
    return [json.loads(text) for text in texts]


def figures(told: Usage) -> tuple[str | None, int | None, int | None, int | None]:
    return told.model, told.prompt_tokens, told.completion_tokens, told.cached_tokens
