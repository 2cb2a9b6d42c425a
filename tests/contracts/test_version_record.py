"""A version of a document as a bucket keeps it."""

from contextlib import nullcontext

import msgspec
import pytest
from msgspec import Raw, to_builtins
from msgspec.structs import replace

from router.contracts.canary import CanaryGuard, CanaryPlan
from router.contracts.stored_record import record_bytes
from router.contracts.version_record import document_hash, make_record, read_record
from router.core.errors import Poison


def test_a_record_is_read_as_it_was_written() -> None:
    record = make_record({"b": 1, "a": [None, "ü"]}, version=3, author="ann")
    assert read_record(record_bytes(record)) == record
    assert record.time.endswith("+00:00")


def test_equal_documents_have_one_hash_whatever_the_order_of_their_keys() -> None:
    assert document_hash({"a": 1, "b": {"c": 2, "d": 3}}) == document_hash(
        {"b": {"d": 3, "c": 2}, "a": 1}
    )
    assert document_hash({"a": 1}) != document_hash({"a": 2})


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"{}", b"\xff", b'{"version": "1"}', b"[" * 100_000, b'{"document":' * 5000],
)
def test_bytes_of_another_form_are_no_record(data: bytes) -> None:
    with pytest.raises(Poison):
        read_record(data)


PLAN = CanaryPlan(document={}, share=50.0, guards=(), until_ms=2**53, min_results=1_000_000)
GUARD = CanaryGuard("error_rate", 100.0)


@pytest.mark.parametrize(
    ("plan", "is_legal"),
    [
        (replace(PLAN, share=0.01, min_results=1, guards=(GUARD, GUARD), until_ms=0), True),
        (replace(PLAN, guards=(CanaryGuard("p95_latency", 1.0),)), True),
        (replace(PLAN, share=50.1), False),
        (replace(PLAN, share=0.009), False),
        (replace(PLAN, min_results=1_000_001), False),
        (replace(PLAN, min_results=0), False),
        (replace(PLAN, until_ms=-1), False),
        (replace(PLAN, guards=(GUARD,) * 3), False),
        (replace(PLAN, guards=(CanaryGuard("error_rate", 100.1),)), False),
        (replace(PLAN, guards=(CanaryGuard("error_rate", 0.9),)), False),
    ],
)
def test_a_canary_stands_in_a_record_within_its_bounds(plan: CanaryPlan, *, is_legal: bool) -> None:
    record = make_record({}, version=1, author="me", canary=plan)
    with nullcontext() if is_legal else pytest.raises(Poison):
        assert read_record(msgspec.json.encode(record)) == record


@pytest.mark.parametrize("part", ["document", "candidate"])
def test_an_integer_above_64_bits_stands_in_no_record(part: str) -> None:
    """It is read, and could never be written again."""
    plan = replace(PLAN, document={"weight": 0} if part == "candidate" else {})
    document = {"weight": 0} if part == "document" else {}
    whole = record_bytes(make_record(document, version=1, author="ann", canary=plan))
    assert read_record(whole).version == 1
    with pytest.raises(Poison):
        read_record(whole.replace(b'"weight":0', b'"weight":%d' % 2**64))


def test_a_candidate_of_sixty_four_levels_is_taken_and_a_deeper_one_is_not() -> None:
    for depth, is_legal in ((63, True), (64, False)):
        tower = Raw(b"[" * depth + b"]" * depth)
        plan = {**to_builtins(PLAN), "document": {"a": tower}}
        record = to_builtins(make_record({}, version=1, author="me"))
        data = msgspec.json.encode({**record, "canary": plan})
        with nullcontext() if is_legal else pytest.raises(Poison):
            read_record(data)
