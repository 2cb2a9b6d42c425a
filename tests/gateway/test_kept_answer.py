"""What makes two requests the same, and what is kept of one."""

import itertools

import pytest

from router.contracts.decision import INVALID_REQUEST
from router.core.errors import Poison
from router.gateway.asked_once import KeptParts
from router.gateway.model.apis import KEEP_ALIVE
from router.gateway.model.kept_answer import (
    MAX_KEPT_BYTES,
    KeptAnswer,
    KeptRecord,
    digest_content,
    find_identity,
    is_kept,
    keep_note,
    make_record_key,
    read_record,
    write_answered,
    write_running,
)
from router.gateway.model.refusal import PROVIDER_REFUSED, PROVIDER_TIMEOUT, GatewayRefusal

RECORD = KeptRecord(content="c", owner="o", request_id="r" * 128)
ANSWER = KeptAnswer(
    status=200,
    headers={"x-router-request-id": "r" * 128, "x-router-policy": "p" * 150},
    media_type="text/event-stream",
    body=b"\xff\x00 any bytes",
)


@pytest.mark.parametrize(
    ("headers", "identity"),
    [
        ({}, None),
        ({"idempotency-key": "k"}, "k"),
        ({"x-router-request-id": "r"}, "r"),
        ({"idempotency-key": "k", "x-router-request-id": "r"}, "k"),
        ({"x-router-request-id": "r~2"}, None),
        ({"x-router-request-id": "r" * 129}, None),
    ],
)
def test_the_key_names_a_request_before_its_id(
    headers: dict[str, str], identity: str | None
) -> None:
    assert find_identity(headers) == identity


@pytest.mark.parametrize("given", ["", " ", "a b", "é", "k" * 129, "k\n"])
def test_a_key_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(GatewayRefusal) as refused:
        find_identity({"idempotency-key": given, "x-router-request-id": "r"})
    assert (refused.value.code, refused.value.param) == (INVALID_REQUEST, "Idempotency-Key")


def test_no_two_tenants_share_a_record() -> None:
    tenants = ("acme", "a.cme", "a", "acme.")
    keys = {make_record_key(tenant, "k.>*") for tenant in tenants}
    assert len(keys) == len(tenants)
    assert all(set(">* ").isdisjoint(key) for key in keys)


def test_a_body_for_another_policy_or_api_is_other_content() -> None:
    contents = [("chat", "p", b"x"), ("chat", "q", b"x"), ("responses", "p", b"x"), ("c", "p", b"")]
    assert len({digest_content(*content) for content in contents}) == len(contents)


def test_a_record_is_read_as_it_was_written() -> None:
    assert read_record(write_answered(RECORD, ANSWER)).answer == ANSWER
    assert read_record(write_running(RECORD, 0)).answer is None


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"content": 1}', b"\xff"])
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(Poison):
        read_record(data)


def test_in_a_full_bucket_a_record_that_runs_is_replaced_by_smaller_ones() -> None:
    """The server takes a value in place of a larger one."""
    sizes = [len(write_running(RECORD, renewals)) for renewals in range(300)]
    note = len(write_answered(RECORD, keep_note(ANSWER)))
    assert all(later < earlier for earlier, later in itertools.pairwise(sizes))
    assert note < sizes[-1]


@pytest.mark.parametrize(
    ("code", "is_called", "kept"),
    [
        (PROVIDER_TIMEOUT, True, True),
        (PROVIDER_TIMEOUT, False, False),
        (PROVIDER_REFUSED, True, False),
        ("budget_exceeded", True, False),
    ],
)
def test_a_failure_is_kept_where_a_provider_may_have_billed(
    code: str, is_called: bool, kept: bool
) -> None:
    assert is_kept(GatewayRefusal(code, ""), is_called=is_called) is kept


def test_of_a_stream_its_events_are_kept_and_nothing_above_the_bound() -> None:
    parts = KeptParts()
    for data in (b"a", KEEP_ALIVE, b"b"):
        parts.add(data)
    assert (parts.is_whole, parts.join()) == (True, b"ab")
    for _ in range(3):
        parts.add(b"x" * MAX_KEPT_BYTES)
    assert (parts.is_whole, parts.join()) == (False, b"")
