"""How OpenAI's requests are read, and what a provider is asked."""

import json

import pytest

from router.gateway.model.apis import (
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    MAX_BODY_BYTES,
    MAX_FIELDS,
    NamedPolicy,
    count_usage,
    find_policy,
    read_api_request,
    read_fields,
    write_event,
    write_plain_prompt,
    write_prompt,
)
from router.gateway.model.refusal import GatewayRefusal

MESSAGES = [{"role": "user", "content": "hello"}]


def a_body(**fields: object) -> bytes:
    return json.dumps({"model": "auto", "messages": MESSAGES, **fields}).encode()


def test_what_is_not_known_travels_on_as_it_was_written() -> None:
    body = (
        b'{"model":"auto","messages":[],"seed":12345678901234567890123,'
        b'"x":{"b":1.00,"a":"\\u00e9"},"stream":true,"stream_options":{"include_usage":true}}'
    )
    asked = read_api_request(CHAT, body)
    assert (asked.is_stream, asked.wants_usage) == (True, True)
    assert write_prompt(asked.fields, "m-1", {"temperature": 0}) == (
        '{"messages":[],"seed":12345678901234567890123,"x":{"b":1.00,"a":"\\u00e9"},'
        '"temperature":0,"model":"m-1"}'
    )


def test_without_a_model_the_provider_chooses_its_own() -> None:
    assert "model" not in json.loads(write_prompt(read_fields(a_body()), None, {}))


def test_the_policys_parameters_hold_against_the_clients() -> None:
    prompt = write_prompt(read_fields(a_body(temperature=2)), "m", {"temperature": 0})
    assert json.loads(prompt)["temperature"] == 0


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"[]", None),
        (b'{"model": "auto"', None),
        (b'{"model": "auto", "messages": "\xff"}', None),
        (b'{"model": "auto"}', "messages"),
        (a_body(model=7), "model"),
        (a_body(model="with a space"), "model"),
        (a_body(model="m" * 129), "model"),
        (a_body(stream="yes"), "stream"),
        (a_body(stream_options=[]), "stream_options"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, None),
        (json.dumps({str(n): n for n in range(MAX_FIELDS + 1)}).encode(), None),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_field(body: bytes, param: str | None) -> None:
    with pytest.raises(GatewayRefusal) as refused:
        read_api_request(CHAT, body)
    assert (refused.value.status, refused.value.param) == (400, param)


def test_a_body_is_as_large_as_a_message_may_be() -> None:
    filler = MAX_BODY_BYTES - len(a_body(x=""))
    assert read_api_request(CHAT, a_body(x="y" * filler))
    with pytest.raises(GatewayRefusal) as refused:
        read_api_request(CHAT, a_body(x="y" * (filler + 1)))
    assert refused.value.status == 413


def test_embeddings_are_not_streamed() -> None:
    body = json.dumps({"model": "auto", "input": "hello", "stream": True}).encode()
    with pytest.raises(GatewayRefusal, match="whole"):
        read_api_request(EMBEDDINGS, body)


@pytest.mark.parametrize(
    ("model", "named"),
    [
        ("auto", NamedPolicy("usual")),
        ("router/chat", NamedPolicy("chat")),
        ("router/chat/openai/gpt-4o", NamedPolicy("chat", "openai/gpt-4o")),
        ("gpt-4o", NamedPolicy("usual", "gpt-4o")),
        ("openai/gpt-4o", NamedPolicy("usual", "openai/gpt-4o")),
    ],
)
def test_a_model_names_a_policy_or_a_providers_model(model: str, named: NamedPolicy) -> None:
    assert find_policy(model, "usual") == named


@pytest.mark.parametrize("model", ["router/", "router/_shared", "router/chat/", "router/a b"])
def test_a_name_that_no_policy_can_have_is_no_model(model: str) -> None:
    with pytest.raises(GatewayRefusal) as refused:
        find_policy(model)
    assert refused.value.status == 404


def test_a_plain_provider_gets_the_text_of_the_messages() -> None:
    parts = [{"type": "text", "text": "good "}, {"type": "text", "text": "day"}]
    said = [{"role": "system", "content": "be kind"}, {"role": "user", "content": parts}]
    assert write_plain_prompt(CHAT, read_fields(a_body())) == "hello"
    fields = read_fields(a_body(messages=said))
    assert write_plain_prompt(CHAT, fields) == "system: be kind\nuser: good day"
    assert write_plain_prompt(COMPLETIONS, read_fields(b'{"prompt": "once"}')) == "once"


@pytest.mark.parametrize(
    "messages", ["hello", [], [7], [{"role": "user", "content": [{"type": "image_url"}]}], [{}]]
)
def test_a_plain_provider_is_not_asked_for_what_is_no_text(messages: object) -> None:
    with pytest.raises(GatewayRefusal) as refused:
        write_plain_prompt(CHAT, read_fields(a_body(messages=messages)))
    assert refused.value.param == "messages"


def test_tokens_are_told_as_openai_does() -> None:
    told = {"prompt_tokens": "3", "completion_tokens": "2", "cached_tokens": "1"}
    assert count_usage(told) == {
        "prompt_tokens": 3,
        "completion_tokens": 2,
        "total_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 1},
    }
    assert count_usage({"prompt_tokens": "3"}) is None


def test_a_line_feed_in_an_event_does_not_end_it() -> None:
    assert write_event(b"a\r\n\nevent: x\rb", "t") == (
        b"event: t\ndata: a\ndata: \ndata: event: x\ndata: b\n\n"
    )
