"""Whose request it is, as much of it as is read before it is handled."""

import orjson
import pytest

from router.decide.model import origin
from router.decide.model.origin import (
    NOT_SERVED,
    RequestOrigin,
    build_overload_answer,
    glance_origin,
    read_origin,
)
from router.decide.model.read import RequestLimits

SERVED = frozenset({"acme"})
IDS = ("tenant_id", "request_id", "message_id", "trace_id", "policy_id")


def a_request(**fields: object) -> bytes:
    return orjson.dumps(
        {"version": "1", "tenant_id": "acme", "task": {"type": "chat", "payload": "x"}, **fields}
    )


@pytest.mark.parametrize(
    ("fields", "headers", "asker"),
    [
        ({"request_id": "r-1", "trace_id": "t-1"}, {}, RequestOrigin("acme", "r-1", "t-1")),
        ({}, {"Nats-Msg-Id": "m-1"}, RequestOrigin("acme", "m-1", None)),
        (
            {"message": {"message_id": "m-2", "tenant_id": "acme"}},
            {},
            RequestOrigin("acme", "m-2", None),
        ),
        ({"request_id": "r-1"}, {"tenant_id": "other"}, RequestOrigin("other", "r-1", None)),
        ({"push_assignment": True}, {}, None),  # its identity is its place in the stream
        ({"push_assignment": True, "request_id": "r-1"}, {}, RequestOrigin("acme", "r-1", None)),
        (
            {"request_id": "r-1", "policy_id": "fast"},
            {},
            RequestOrigin("acme", "r-1", None, "fast"),
        ),
        ({"policy_id": "fast"}, {"Nats-Msg-Id": "m-1"}, RequestOrigin("acme", "m-1", None, "fast")),
        ({"tenant_id": None}, {}, None),
    ],
)
def test_an_asker_is_read_from_the_body_and_the_headers(
    fields: dict[str, object], headers: dict[str, str], asker: RequestOrigin | None
) -> None:
    assert read_origin(a_request(**fields), headers, RequestLimits()) == asker


def test_a_request_without_an_id_has_one_of_its_bytes() -> None:
    """So that its refusal names it (docs/reference/contracts.md#refusal-id), and two are told
    apart.
    """
    asked = [{}, {"request_id": "two words"}, {"policy_id": "fast"}]
    told = [_read_refusal_id(a_request(**fields)) for fields in (*asked, {})]
    assert (len(set(told)), told[-1]) == (len(asked), told[0])


def test_a_large_request_waits_for_its_stored_copy() -> None:
    for size, is_read in ((65_536, True), (65_537, False)):
        found = read_origin(a_request().ljust(size), {}, RequestLimits())
        assert (found is not None) == is_read


def _read_refusal_id(data: bytes) -> str:
    found = read_origin(data, {}, RequestLimits())
    assert found is not None
    return str(orjson.loads(build_overload_answer(found, 1000))["context"]["request_id"])


ODD: tuple[object, ...] = (
    None,
    "",
    "x",
    "two words",
    "x" * 129,
    "é",
    '"',
    7,
    True,
    ["x"],
    {"a": "b"},
)


@pytest.mark.parametrize(
    "headers", [{}, {"tenant_id": "other", "Nats-Msg-Id": "m-1"}, {"tenant_id": "_odd"}]
)
def test_the_short_way_reads_the_same_as_the_long_one(headers: dict[str, str]) -> None:
    documents = [
        {name: odd, "request_id": "r-1", **inner}
        for name in IDS
        for odd in ODD
        for inner in ({}, {"message": {"tenant_id": "in"}})
    ]
    documents += [
        {"message": {"request_id": "in", name: odd}, "tenant_id": "acme"}
        for name in IDS
        for odd in ODD
    ]
    documents += [{"message": odd, "request_id": "r-1"} for odd in ODD]
    read = 0
    for document in documents:
        data = a_request(**document)
        if (found := glance_origin(data, headers)) is not None:
            read += 1
            assert found == origin._read(data, headers, RequestLimits()), document
    assert read > len(documents) / 4


@pytest.mark.parametrize("tenant", ["made-up-1", "made-up-2"])
def test_tenants_that_are_not_served_have_one_share_together(tenant: str) -> None:
    assert read_origin(
        a_request(tenant_id=tenant, request_id="r-1"), {}, RequestLimits(), SERVED
    ) == RequestOrigin(NOT_SERVED, "r-1", None)
    assert read_origin(a_request(request_id="r-1"), {}, RequestLimits(), SERVED) == RequestOrigin(
        "acme", "r-1", None
    )


def test_a_refusal_names_the_request_and_when_to_ask_again() -> None:
    answer = orjson.loads(build_overload_answer(RequestOrigin("acme", 'r-"1', "t-1"), 1500))
    assert (answer["ok"], answer["error"]["code"], answer["error"]["details"]) == (
        False,
        "overloaded",
        {"retry_after_ms": 1500},
    )
    assert answer["context"] == {"request_id": 'r-"1', "trace_id": "t-1"}
