"""The models of a provider: of a file, which closes the list, or as the API names them."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from router.core.errors import Misconfigured
from router.providers.models import MAX_MODELS, list_legal, load_models
from router.sdk.extension.request import RequestFailed
from router.sdk.extension.server import entry_of
from tests.support.model_apis import ModelApis
from tests.support.observability import LogLines
from tests.support.provider_services import QUESTION, a_provider, asks, complete


def a_file(directory: Path, document: object) -> Path:
    file = directory / "models.json"
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    return file


@pytest.mark.parametrize(
    "document",
    [
        "nonsense",
        "7",
        [],
        {},
        ["a", "a"],
        ["a b"],
        ["x" * 129],
        [7],
        {"a": 7},
        {"a": {"prompt": "x" * 5000}},
        [str(n) for n in range(MAX_MODELS + 1)],
    ],
)
def test_a_file_of_another_shape_is_refused(tmp_path: Path, document: object) -> None:
    with pytest.raises(Misconfigured, match="--models"):
        load_models(a_file(tmp_path, document))


async def test_a_file_closes_the_list_and_gives_parameters(apis: ModelApis, tmp_path: Path) -> None:
    file = a_file(tmp_path, {"small": {"max_tokens": 7, "seed": 1}, "large": {}})
    async with a_provider("openai", apis, models_file=file) as provider:
        await complete(provider, asks({**QUESTION, "seed": 2}))
        await complete(provider, asks("hi", None))
        with pytest.raises(RequestFailed, match="none that this provider serves") as failed:
            await complete(provider, asks({**QUESTION, "model": "dear"}))
    first, second = (call.body for call in apis.calls)
    assert (first["max_tokens"], first["seed"]) == (7, 2)
    assert second["model"] == "small"  # the first, where none is named
    assert (failed.value.status, failed.value.fault) == (404, "request")


@pytest.mark.parametrize("kind", ["openai", "ollama", "echo"])
async def test_the_entry_says_which_apis_and_models_there_are(apis: ModelApis, kind: str) -> None:
    async with a_provider(kind, apis) as provider:
        entry: Any = entry_of(provider, {})
    metadata = entry["metadata"]
    assert metadata["models"] == (["echo-1"] if kind == "echo" else apis.models)
    assert "chat.completions" in metadata["apis"]
    assert ("embeddings" in metadata["apis"]) == (kind != "ollama")
    assert (entry["type"], entry["timeout_ms"], "config" in entry) == ("provider", 60_000, False)


async def test_an_api_that_lists_no_models_serves_on(apis: ModelApis, lines: LogLines) -> None:
    async with a_provider("openai", apis, base_url=f"{apis.url}/v1/nowhere") as provider:
        assert "models" not in provider.metadata
    assert [line["event"] for line in lines.all()] == ["provider.models_unknown"]


async def test_the_model_of_a_plain_prompt_may_stand_in_the_registry(apis: ModelApis) -> None:
    async with a_provider("openai", apis) as provider:
        await complete(provider, replace(asks("hi", None), config={"model": "large"}))
    assert apis.calls[0].body["model"] == "large"


def test_of_what_an_api_lists_the_first_legal_names_are_taken() -> None:
    names = ["a", "a", 7, "b c", "\n", *(f"m-{n}" for n in range(1000))]
    assert list_legal(names) == ("a", *(f"m-{n}" for n in range(MAX_MODELS - 1)))
