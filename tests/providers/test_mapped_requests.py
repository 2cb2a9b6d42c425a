"""What a chat becomes for Anthropic and Ollama, and which places of it are refused by name."""

from typing import Any

import pytest

from router.providers.api_call import ApiCall
from router.providers.kinds import anthropic_request, ollama
from router.sdk.extension.request import RequestFailed

Json = dict[str, Any]
USER: Json = {"role": "user", "content": "hi"}
A_TOOL: Json = {"type": "function", "function": {"name": "weather"}}
LINKED: Json = {"type": "image_url", "image_url": {"url": "https://a.test/b.png"}}
A_FILE: Json = {"type": "file", "file": {"file_id": "file-1"}}
MAKE = {"anthropic": anthropic_request.make_request, "ollama": ollama.make_request}


def mapped(kind: str, **body: Any) -> Json:
    asked = {"model": "m", "messages": [USER], **body}
    return MAKE[kind](ApiCall(api="chat.completions", body=asked))


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"content": "hi"}]}, "messages"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages.content"),
        ({"messages": [{"role": "user", "content": [A_FILE]}]}, "messages.content"),
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"tools": "all"}, "tools"),
    ],
)
def test_what_has_no_place_there_is_refused_by_its_name(kind: str, body: Json, place: str) -> None:
    with pytest.raises(RequestFailed) as failed:
        mapped(kind, **body)
    assert (failed.value.field, failed.value.fault) == (place, "request")


@pytest.mark.parametrize(
    ("kind", "body", "place"),
    [
        ("anthropic", {"response_format": {"type": "json_object"}}, "response_format"),
        ("anthropic", {"messages": [{"role": "function", "content": "a"}]}, "messages.role"),
        ("anthropic", {"tools": [A_TOOL], "tool_choice": {"type": "function"}}, "tool_choice"),
        ("anthropic", {"tools": [A_TOOL], "tool_choice": "some"}, "tool_choice"),
        (
            "ollama",
            {"messages": [{"role": "user", "content": [LINKED]}]},
            "messages.content.image_url",
        ),
    ],
)
def test_what_one_of_them_cannot_do_is_refused(kind: str, body: Json, place: str) -> None:
    with pytest.raises(RequestFailed) as failed:
        mapped(kind, **body)
    assert failed.value.field == place


@pytest.mark.parametrize(
    ("asked", "made"),
    [
        ({}, None),
        ({"tool_choice": "auto"}, {"type": "auto"}),
        ({"tool_choice": "none", "parallel_tool_calls": False}, {"type": "none"}),
        ({"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}),
        (
            {"tool_choice": {"type": "function", "function": {"name": "weather"}}},
            {"type": "tool", "name": "weather"},
        ),
    ],
)
def test_the_choice_of_a_tool_has_anthropics_words(asked: Json, made: Json | None) -> None:
    assert mapped("anthropic", tools=[A_TOOL], **asked).get("tool_choice") == made


def test_anthropic_is_given_an_image_by_its_address_and_a_bound_of_tokens() -> None:
    made = mapped("anthropic", messages=[{"role": "user", "content": [LINKED]}], stop=["a", "b"])
    (block,) = made["messages"][0]["content"]
    assert block["source"] == {"type": "url", "url": "https://a.test/b.png"}
    assert (made["max_tokens"], made["stop_sequences"]) == (4096, ["a", "b"])
    assert mapped("anthropic", max_tokens=5)["max_tokens"] == 5
    assert mapped("anthropic", max_tokens=5, max_completion_tokens=6)["max_tokens"] == 6
    assert mapped("anthropic", thinking={"type": "enabled"})["thinking"] == {"type": "enabled"}


def test_ollama_is_given_a_schema_and_its_own_names_of_options() -> None:
    schema = {"type": "object"}
    asked = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    made = mapped("ollama", response_format=asked, max_tokens=5, seed=1, user="u-1")
    assert made["format"] == schema
    assert made["options"] == {"num_predict": 5, "seed": 1}
    assert made.keys() == {"model", "messages", "options", "format"}
