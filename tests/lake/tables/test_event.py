"""From messages to events, and to the reasons why some are none."""

from decimal import Decimal

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from router.contracts.usage import (
    ADJUSTMENTS,
    MAX_TOKENS,
    UsageEvent,
    assignment_identity,
    derive_identity,
    identity,
    usage_bytes,
)
from router.lake.tables.body import find_reason, read_event
from router.lake.tables.event import parse_messages
from tests.support.lake_jobs import NOON, a_body, an_adjustment, messages
from tests.support.usage import a_usage_event

ODD = [
    "plain",
    'a"b',
    "a\\b",
    '\\"',
    "\\u0041",
    "tab\tnew\nline",
    "\x01\x0b\x1f\x7f",
    "grün",
    "日本",
    "😀\\",
    "a/b",
    "\\u000B",
]


def read(*bodies: bytes) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The events, and what is none."""
    (batch,) = messages(bodies).combine_chunks().to_batches()
    return parse_messages(batch)


def ids_of(*bodies: bytes) -> list[str]:
    found: list[str] = read(*bodies)[0]["event_id"].to_pylist()
    return found


def test_the_identity_is_the_routers_own_on_odd_ids_too() -> None:
    """UL-1."""
    events = [a_usage_event(tenant_id=one, request_id=other) for one in ODD for other in ODD]
    found = ids_of(*(a_body(event.request_id or "", tenant_id=event.tenant_id) for event in events))
    assert found == [identity(event) for event in events]


def test_an_assignment_comes_before_a_request_and_an_empty_one_does_not_count() -> None:
    first, second, third = ids_of(
        a_body("r", assignment_id="a"), a_body("r", assignment_id=""), a_body("r")
    )
    assert first != second == third


def test_the_two_numbers_of_an_identity_are_all_of_it() -> None:
    events, _ = read(
        a_body("r-1"), a_body("r-2"), a_body("r-1", status="error"), a_body("r-1", cost="9.0")
    )
    numbers = list(zip(events["id_high"].to_pylist(), events["id_low"].to_pylist(), strict=True))
    halves = [
        high.to_bytes(8, "little", signed=True) + low.to_bytes(8, "little", signed=True)
        for high, low in numbers
    ]
    assert [f"usage:{half.hex()}" for half in halves] == events["event_id"].to_pylist()
    assert len(set(numbers)) == 3


@pytest.mark.parametrize(
    "told",
    [{"provider_id": "another"}, {"event_type": "image"}, {"latency_ms": 121}, {"cost": "0.75"}],
)
def test_other_content_is_told_apart(told: dict[str, str]) -> None:
    events, _ = read(a_body(), a_body(**told))  # type: ignore[arg-type]
    first, second = events["content"].to_pylist()
    assert first != second


def test_the_same_cost_written_otherwise_and_another_trace_are_the_same_content() -> None:
    events, _ = read(
        a_body(cost="0.5"),
        a_body(cost="0.50"),
        a_body(cost="5e-1"),
        a_body(trace_id="t", timestamp=7),
    )
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
    a_body(cost="-0.000000001"): "invalid:cost",
    a_body(event_id="usage:" + "A" * 32): "invalid:event_id",
    a_body(event_id="r-1"): "invalid:event_id",
    a_body(model="m" * 257): "invalid:model",
    a_body(input_tokens=-1): "invalid:input_tokens",
    a_body(cached_tokens=MAX_TOKENS + 1): "invalid:cached_tokens",
    a_body(output_tokens=1 << 63): "invalid:output_tokens",
    a_body(output_tokens=1.5): "not_an_event",
    a_body(price="p" * 257): "invalid:price",
    a_body(estimated="yes"): "not_an_event",
    a_body(told_cost=orjson.Fragment("1e10")): "invalid:told_cost",
    a_body(told_cost=orjson.Fragment("-1")): "invalid:told_cost",
    a_body(told_cost="9"): "invalid:told_cost",
    a_body(told_provider_id="p" * 257): "invalid:told_provider_id",
    a_body(adjusts="r-1"): "invalid:adjusts",
    a_body(reason="r" * 513): "invalid:reason",
    a_body(budget="month"): "invalid:budget",
    a_body(event_type="usage.adjustment"): "invalid:adjustment",
    a_body(adjustment="bill"): "invalid:adjustment",
    an_adjustment(adjustment="gift"): "invalid:adjustment",
    an_adjustment(event_type="chat"): "invalid:adjustment",
    an_adjustment(event_id=None): "missing:event_id",
    an_adjustment(correlated=False): "invalid:correlated",
    an_adjustment(adjustment="budget"): "invalid:budget",
    an_adjustment(adjustment="budget", budget=""): "invalid:budget",
    an_adjustment(budget="month"): "invalid:budget",
    an_adjustment(budget="m" * 257, adjustment="budget"): "invalid:budget",
    an_adjustment(cost="-1000000000.000000001"): "invalid:cost",
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


def test_both_kinds_of_identity_are_read() -> None:
    """UL-1."""
    made = assignment_identity("acme", "a-1")
    assert ids_of(a_body(assignment_id="a-1", event_id=made), a_body(assignment_id="a-1")) == [
        made, derive_identity("acme", "a-1", "success"),
    ]  # fmt: skip


def test_every_field_of_the_contract_comes_to_silver() -> None:
    """UL-6."""
    made = assignment_identity("acme", "a-1")
    of_a_result = UsageEvent(
        tenant_id="acme", provider_id="openai", event_type="chat", latency_ms=1, cost=2.0, status="success",
        timestamp=int(NOON.timestamp() * 1000), assignment_id="a-1", event_id=made, told_cost=1e9, told_provider_id="other",
        is_correlated=False,
    )  # fmt: skip
    priced = {
        "model": "gpt-4o",
        "input_tokens": 100,
        "cached_tokens": 40,
        "output_tokens": 7,
        "price": "openai/gpt-4o#3",
    }
    told = replace(of_a_result, **priced, is_estimated=True)
    (row,) = read(usage_bytes(told))[0].to_pylist()
    kept = {
        **priced,
        "event_id": made,
        "estimated": True,
        "told_cost": Decimal(10**9),
        "correlated": False,
    }
    assert {name: row[name] for name in kept} == kept


def test_what_an_event_does_not_tell_is_null_and_the_flags_say_the_usual() -> None:
    (row,) = read(a_body())[0].to_pylist()
    names = (
        "model",
        "input_tokens",
        "cached_tokens",
        "output_tokens",
        "price",
        "adjustment",
        "adjusts",
        "budget",
        "told_cost",
    )
    assert not any(row[name] is not None for name in names)
    assert (row["estimated"], row["correlated"]) == (False, True)


@pytest.mark.parametrize("kind", sorted(ADJUSTMENTS))
@pytest.mark.parametrize("cost", ["-1000000000.0", "-0.000000001", "0.0", "1.5"])
def test_an_adjustment_is_an_event_without_a_request_and_its_cost_has_a_sign(
    kind: str, cost: str
) -> None:
    """UL-39."""
    events, refused = read(
        an_adjustment(adjustment=kind, cost=cost, budget="month" if kind == "budget" else None)
    )
    assert not len(refused)
    (row,) = events.to_pylist()
    assert (row["cost"], row["adjustment"], row["assignment_id"], row["request_id"]) == (
        Decimal(cost),
        kind,
        None,
        None,
    )


@pytest.mark.parametrize(
    "told",
    [{"adjustment": "held"}, {"adjusts": assignment_identity("acme", "other")}, {"cost": "-3.0"}],
)
def test_one_identity_with_another_adjustment_is_a_conflict(told: dict[str, str]) -> None:
    events, _ = read(an_adjustment(), an_adjustment(**told))
    first, second = events["content"].to_pylist()
    assert first != second


def test_a_new_field_is_no_other_content_of_an_outcome() -> None:
    """An event that came before tokens were told comes again with them."""
    told = {
        "model": "m",
        "input_tokens": 1,
        "price": "p#1",
        "estimated": True,
        "correlated": False,
        "told_cost": 3,
        "trace_id": "t",
    }
    events, _ = read(a_body(), a_body(**told))
    assert len(set(events["content"].to_pylist())) == 1


FIELDS: dict[str, st.SearchStrategy[object]] = {
    "cost": st.sampled_from(
        ["0.5", "0", "-0.0", "-0.5", "1e9", "-1e9", "1.1e9", "-1.1e9", '"1"', "1e99"]
    ),
    "event_type": st.sampled_from(["chat", "usage.adjustment"]),
    "event_id": st.sampled_from([None, "usage:" + "0" * 32, "usage:0"]),
    "request_id": st.sampled_from([None, "", "r-1"]),
    "adjustment": st.sampled_from([None, "bill", "budget", "gift"]),
    "budget": st.sampled_from([None, "", "month"]),
    "correlated": st.sampled_from([True, False]),
    "told_cost": st.sampled_from([None, 2, 0, -1, 10**10, "9"]),
    "timestamp": st.sampled_from([0, int(NOON.timestamp() * 1000), 1 << 60]),
    "input_tokens": st.sampled_from([None, 0, -1, MAX_TOKENS, MAX_TOKENS + 1]),
}


def find_wrong(told: dict[str, object]) -> set[str]:
    """What may be named as wrong, by the rules of the contract, field by field."""
    is_adjustment, cost, budget = (
        told.get("adjustment") is not None,
        str(told.get("cost", "0.5")),
        told.get("budget"),
    )
    wrong = {
        "adjustment": told.get("adjustment") == "gift"
        or is_adjustment != (told.get("event_type") == "usage.adjustment"),
        "budget": budget == "" or (budget is None) != (told.get("adjustment") != "budget"),
        "cost": cost in {"1.1e9", "-1.1e9", '"1"', "1e99"}
        or (cost in {"-0.5", "-1e9"} and not is_adjustment),
        "event_id": told.get("event_id") == "usage:0"
        or (is_adjustment and told.get("event_id") is None),
        "assignment_id,request_id": not is_adjustment and not told.get("request_id", "r-1"),
        "correlated": is_adjustment and told.get("correlated") is False,
        "told_cost": told.get("told_cost") not in {None, 2, 0},
        "timestamp": told.get("timestamp") in {0, 1 << 60},
        "input_tokens": told.get("input_tokens") in {-1, MAX_TOKENS + 1},
    }
    return {name for name, is_wrong in wrong.items() if is_wrong}


@settings(max_examples=400, deadline=None)
@given(st.fixed_dictionaries({}, optional=FIELDS))
def test_what_is_no_event_is_told_by_a_field_that_is_wrong(told: dict[str, object]) -> None:
    """UL-2: the strict reader and the one that looks for the reason draw the same line."""
    body, stored = a_body(**{"cost": "0.5", **told}), int(NOON.timestamp() * 1000)  # type: ignore[arg-type]
    wrong = find_wrong(told)
    assert (read_event(body, stored) is None) == bool(wrong)
    assert not wrong or find_reason(body, stored).partition(":")[2] in wrong
