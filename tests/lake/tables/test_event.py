"""From messages to events, and to the reasons why some are none."""

from decimal import Decimal

import orjson
import pyarrow as pa
import pytest

from router.contracts.usage import UsageEvent, identity
from router.lake.tables.event import parse_messages
from tests.support.lake_jobs import a_body, messages

ODD = ["plain", 'a"b', "a\\b", '\\"', "\\u0041", "tab\tnew\nline", "\x01\x0b\x1f\x7f", "grün", "日本", "😀\\", "a/b", "\\u000B"]


def read(*bodies: bytes) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The events, and what is none."""
    (batch,) = messages(bodies).combine_chunks().to_batches()
    return parse_messages(batch)


def ids_of(*bodies: bytes) -> list[str]:
    found: list[str] = read(*bodies)[0]["event_id"].to_pylist()
    return found


def test_the_identity_is_the_routers_own_on_odd_ids_too() -> None:
    """UL-1."""
    events = [
        UsageEvent(tenant_id=one, provider_id="p", event_type="t", latency_ms=1, cost=0.5, status="success", timestamp=1, request_id=other)
        for one in ODD
        for other in ODD
    ]
    found = ids_of(*(a_body(event.request_id or "", tenant_id=event.tenant_id) for event in events))
    assert found == [identity(event) for event in events]


def test_an_assignment_comes_before_a_request_and_an_empty_one_does_not_count() -> None:
    first, second, third = ids_of(a_body("r", assignment_id="a"), a_body("r", assignment_id=""), a_body("r"))
    assert first != second == third


def test_the_two_numbers_of_an_identity_are_all_of_it() -> None:
    events, _ = read(a_body("r-1"), a_body("r-2"), a_body("r-1", status="error"), a_body("r-1", cost="9.0"))
    numbers = list(zip(events["id_high"].to_pylist(), events["id_low"].to_pylist(), strict=True))
    halves = [high.to_bytes(8, "little", signed=True) + low.to_bytes(8, "little", signed=True) for high, low in numbers]
    assert [f"usage:{half.hex()}" for half in halves] == events["event_id"].to_pylist()
    assert len(set(numbers)) == 3


@pytest.mark.parametrize("told", [{"provider_id": "another"}, {"event_type": "image"}, {"latency_ms": 121}, {"cost": "0.75"}])
def test_other_content_is_told_apart(told: dict[str, str]) -> None:
    events, _ = read(a_body(), a_body(**told))  # type: ignore[arg-type]
    first, second = events["content"].to_pylist()
    assert first != second


def test_the_same_cost_written_otherwise_and_another_trace_are_the_same_content() -> None:
    events, _ = read(a_body(cost="0.5"), a_body(cost="0.50"), a_body(cost="5e-1"), a_body(trace_id="t", timestamp=7))
    assert len(set(events["content"].to_pylist())) == 1


COSTS = {
    "0.1": "0.1",
    "0.30000000000000004": "0.3",
    "1.5e-7": "0.00000015",
    "0.0000000005": "0.000000001",  # half up, in the tenth place
    "0.00000000049": "0",
    "12345678.123456789012345678": "12345678.123456789",  # no float holds that
    "5.0e-324": "0",
    "3": "3",
}


def test_a_cost_is_read_from_its_text_and_rounded_half_up_beyond_nine_places() -> None:
    """UL-7."""
    events, _ = read(*(a_body(cost=text) for text in COSTS))
    assert events["cost"].to_pylist() == [Decimal(cost) for cost in COSTS.values()]


BAD = {
    b"": "not_an_event",
    b"null": "not_an_event",
    b"[1]": "not_an_event",
    b"\xff\xfe": "not_utf8",
    a_body()[:-1] + b',"region":"\xff"}': "not_utf8",
    b'{"a":' + b"[" * 100_000: "not_an_event",
    a_body(version=None): "not_an_event",
    a_body(latency_ms="fast"): "not_an_event",
    a_body(latency_ms=1 << 63): "invalid:latency_ms",
    a_body(latency_ms=orjson.Fragment("9" * 5000)): "not_an_event",
    a_body(cost='"free"'): "invalid:cost",
    a_body(cost='"1_000"'): "invalid:cost",
    a_body(cost="1_000"): "not_an_event",
    a_body(cost='"1.5"'): "invalid:cost",
    a_body(cost='"\uff11\uff12"'): "invalid:cost",
    a_body(cost="\uff11\uff12"): "not_an_event",
    a_body(cost="true"): "invalid:cost",
    a_body(version="2"): "invalid:version",
    a_body(version=1): "not_an_event",
    a_body(version="\uff11"): "invalid:version",
    a_body(cost="9" * 5000): "not_an_event",
    a_body(cost="1e" + "9" * 30): "invalid:cost",
    a_body(provider_id=None, status=""): "missing:provider_id",
    a_body(status=""): "missing:status",
    a_body(request_id=None): "missing:assignment_id,request_id",
    a_body(latency_ms=-1): "invalid:latency_ms",
    a_body(timestamp=-1): "invalid:timestamp",
    a_body(timestamp=253_402_300_800_000): "invalid:timestamp",
    a_body(cost="1e30"): "invalid:cost",
    a_body(cost='"NaN"'): "invalid:cost",
    a_body()[:-1]: "not_an_event",
}


def test_what_is_no_event_says_why_and_keeps_its_bytes() -> None:
    """UL-2."""
    events, refused = read(*BAD)
    assert refused["reason"].to_pylist() == list(BAD.values())
    assert refused["data"].to_pylist() == list(BAD)
    assert not len(events)


def test_a_field_that_came_later_disturbs_nothing() -> None:
    body = orjson.dumps({**orjson.loads(a_body()), "region": {"name": "eu"}})
    events, refused = read(body)
    assert (len(events), len(refused)) == (1, 0)
