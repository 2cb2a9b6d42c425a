"""An invocation's request and response, in JSON and protobuf
(docs/reference/extensions.md#invoke-request).
"""

import json

import pytest
from msgspec.structs import replace

from router.contracts.malformed import Malformed
from router.contracts.pb.beamline.provider.v1 import provider_pb2
from router.contracts.provider import ProviderResponse, read_response, refuse, response_bytes
from router.contracts.provider_request import read_request, request_bytes
from router.core.errors import RouterError

ASKED = {
    "provider_id": "echo",
    "tenant_id": "acme",
    "message_id": "m-1",
    "trace_id": "t-1",
    "body": "hello",
}


def asked(**fields: object) -> bytes:
    return json.dumps(
        {name: value for name, value in {**ASKED, **fields}.items() if value is not None}
    ).encode()


def test_both_wires_say_the_same() -> None:
    packed = provider_pb2.ProviderRequest(
        **{**ASKED, "body": b"hello"}, parameters={"max_tokens": "5"}, metadata={"policy_id": "p"}
    ).SerializeToString()
    plain = asked(parameters={"max_tokens": "5"}, metadata={"policy_id": "p"})
    assert read_request(packed, {}) == replace(read_request(plain, {}), raw_parameters=None)


def test_what_a_client_writes_is_what_the_router_reads() -> None:
    for body in ("text", b"\xff\x00"):
        request = read_request(asked(parameters={"n": 1}), {})
        request = read_request(request_bytes(request, 1), {})
        assert request.parameters == {"n": 1}
        binary = read_request(
            request_bytes(
                type(request)(
                    provider_id="e", tenant_id="t", request_id="r", trace_id="x", body=body
                ),
                1,
            ),
            {},
        )
        assert binary.body == body


def test_prompt_and_context_of_a_custom_providers_form_are_body_and_metadata() -> None:
    request = read_request(
        asked(body=None, prompt="hi", metadata={"a": 1, "b": 1}, context={"b": 2}), {}
    )
    assert (request.body, request.metadata) == ("hi", {"a": 1, "b": 2})


def test_headers_win_and_absent_ids_are_made() -> None:
    request = read_request(
        asked(message_id=None, trace_id=None),
        {"tenant_id": "globex", "Nats-Msg-Id": "m-2", "trace_id": "t-2"},
    )
    assert (request.tenant_id, request.request_id, request.trace_id) == ("globex", "m-2", "t-2")
    assert read_request(asked(message_id=None), {}).request_id


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"provider_id": None}, "provider_id"),
        ({"provider_id": "a.b"}, "provider_id"),
        ({"provider_id": "*"}, "provider_id"),
        ({"tenant_id": None}, "tenant_id"),
        ({"tenant_id": "_x"}, "tenant_id"),
        ({"body": None}, "body"),
        ({"body": {"a": 1}}, "body"),
        ({"body": "!", "payload_encoding": "base64"}, "body"),
        ({"parameters": [1]}, "parameters"),
        ({"metadata": {"a": "x" * 70_000}}, "metadata"),
        ({"message_id": "with space"}, "message_id"),
        ({"version": "2"}, "version"),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, object], place: str) -> None:
    with pytest.raises(Malformed) as refused_:
        read_request(asked(**fields), {})
    assert refused_.value.field == place


def test_a_request_above_the_limit_is_not_parsed() -> None:
    with pytest.raises(Malformed, match="larger than 100"):
        read_request(asked(body="x" * 200), {}, 100)


def test_a_response_reads_back_and_leaves_out_what_is_absent() -> None:
    response = ProviderResponse(
        request_id="r",
        status="success",
        body=b"\xff",
        metadata={"a": "b"},
        latency_ms=5,
        cost=0.5,
        timestamp_ms=9,
    )
    data = response_bytes(response)
    assert read_response(data) == response
    assert b"null" not in data
    assert b"error_code" not in data
    packed = provider_pb2.ProviderResponse.FromString(response_bytes(response, protobuf=True))
    assert (packed.body, packed.cost, packed.metadata["a"], packed.error_code) == (
        b"\xff",
        0.5,
        "b",
        "",
    )


def test_a_refusal_is_a_response_that_is_not_ok() -> None:
    response = read_response(response_bytes(refuse("r", "overloaded", "later")))
    assert (response.ok, response.error_code, response.error_message) == (
        False,
        "overloaded",
        "later",
    )


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"request_id": "r", "status": 1}', b"\xff"])
def test_bytes_that_are_no_response_are_told(data: bytes) -> None:
    with pytest.raises(RouterError):
        read_response(data)
