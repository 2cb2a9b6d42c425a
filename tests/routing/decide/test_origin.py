"""Whose request it is, as much of it as is read before it is handled."""

import orjson
import pytest

from router.routing.decide.origin import NOT_SERVED, RequestOrigin, build_overload_reply, read_origin
from router.routing.decide.read import RequestLimits

SERVED = frozenset({"acme"})


def a_request(**fields: object) -> bytes:
    return orjson.dumps({"version": "1", "tenant_id": "acme", "task": {"type": "chat", "payload": "x"}, **fields})


@pytest.mark.parametrize(
    ("fields", "headers", "asker"),
    [
        ({"request_id": "r-1", "trace_id": "t-1"}, {}, RequestOrigin("acme", "r-1", "t-1")),
        ({}, {"Nats-Msg-Id": "m-1"}, RequestOrigin("acme", "m-1", None)),
        ({"message": {"message_id": "m-2", "tenant_id": "acme"}}, {}, RequestOrigin("acme", "m-2", None)),
        ({"request_id": "r-1"}, {"tenant_id": "other"}, RequestOrigin("other", "r-1", None)),
        ({"request_id": "two words"}, {}, RequestOrigin("acme", None, None)),
        ({"push_assignment": True}, {}, None),  # its identity is its place in the stream
        ({"push_assignment": True, "request_id": "r-1"}, {}, RequestOrigin("acme", "r-1", None)),
        ({"tenant_id": None}, {}, None),
    ],
)
def test_an_asker_is_read_from_the_body_and_the_headers(
    fields: dict[str, object], headers: dict[str, str], asker: RequestOrigin | None
) -> None:
    assert read_origin(a_request(**fields), headers, RequestLimits()) == asker


@pytest.mark.parametrize("tenant", ["made-up-1", "made-up-2"])
def test_tenants_that_are_not_served_have_one_share_together(tenant: str) -> None:
    assert read_origin(a_request(tenant_id=tenant, request_id="r-1"), {}, RequestLimits(), SERVED) == RequestOrigin(NOT_SERVED, "r-1", None)
    assert read_origin(a_request(request_id="r-1"), {}, RequestLimits(), SERVED) == RequestOrigin("acme", "r-1", None)


def test_a_refusal_names_the_request_and_when_to_ask_again() -> None:
    answer = orjson.loads(build_overload_reply(RequestOrigin("acme", 'r-"1', "t-1"), 1500))
    assert (answer["ok"], answer["error"]["code"], answer["error"]["details"]) == (False, "overloaded", {"retry_after_ms": 1500})
    assert answer["context"] == {"request_id": 'r-"1', "trace_id": "t-1"}
