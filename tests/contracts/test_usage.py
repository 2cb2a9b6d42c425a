"""The usage event, byte by byte."""

import hashlib
import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contracts.decision import ADJUSTMENT_TYPE
from router.contracts.usage import (
    UsageCost,
    assignment_identity,
    decimal,
    derive_identity,
    identity,
    read_usage_cost,
    usage_bytes,
)
from tests.support.usage import a_usage_event


def test_fields_stand_in_the_order_of_the_contract() -> None:
    assert usage_bytes(
        a_usage_event(latency_ms=812, timestamp=17, trace_id="t", assignment_id="a", request_id="r")
    ) == (
        b'{"version":"1","tenant_id":"acme","provider_id":"openai","event_type":"chat","latency_ms":812,"cost":0.5,'
        b'"status":"success","timestamp":17,"trace_id":"t","assignment_id":"a","request_id":"r"}'
    )


def test_what_is_absent_is_left_out() -> None:
    assert list(orjson.loads(usage_bytes(a_usage_event(request_id="r"))))[-2:] == [
        "timestamp",
        "request_id",
    ]


@pytest.mark.parametrize(
    ("cost", "text"),
    [(0.0, "0.0"), (3.0, "3.0"), (1e-7, "1.0e-07"), (1e22, "1.0e+22"), (1.5e-9, "1.5e-09")],
)
def test_a_cost_has_a_decimal_point(cost: float, text: str) -> None:
    assert decimal(cost) == text
    assert b'"cost":' + text.encode() + b"," in usage_bytes(a_usage_event(cost=cost))


@given(st.floats(min_value=0, allow_infinity=False, allow_nan=False))
def test_a_cost_reads_back_as_it_was(cost: float) -> None:
    assert "." in decimal(cost)
    assert json.loads(decimal(cost)) == orjson.loads(decimal(cost)) == cost


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)


@given(
    st.floats(min_value=0, allow_infinity=False, allow_nan=False),
    texts,
    st.none() | texts,
    st.booleans(),
)
def test_the_bytes_are_those_of_the_fields_one_by_one(
    cost: float, text: str, trace_id: str | None, is_correlated: bool
) -> None:
    event = a_usage_event(
        provider_id=text,
        cost=cost,
        trace_id=trace_id,
        assignment_id="a",
        is_correlated=is_correlated,
    )
    trace = {"trace_id": trace_id} if trace_id is not None else {}
    mark = {} if is_correlated else {"correlated": False}
    usual = {
        "version": "1",
        "tenant_id": "acme",
        "provider_id": text,
        "event_type": "chat",
        "latency_ms": 1,
    }
    body = {
        **usual,
        "cost": orjson.Fragment(decimal(cost)),
        "status": "success",
        "timestamp": 1,
        **trace,
        "assignment_id": "a",
        **mark,
    }
    assert usage_bytes(event) == orjson.dumps(body)


def test_the_identity_is_computed_from_the_body() -> None:
    event = a_usage_event(assignment_id='a"\\', request_id="r")
    body = json.loads(usage_bytes(event))
    array = json.dumps(
        [body["tenant_id"], body["assignment_id"], body["status"]], separators=(",", ":")
    )
    assert identity(event) == "usage:" + hashlib.sha256(array.encode()).hexdigest()[:32]


def test_the_identity_is_that_of_one_outcome_of_one_assignment() -> None:
    first = identity(a_usage_event(assignment_id="a", request_id="r"))
    assert first == identity(a_usage_event(assignment_id="a", cost=9.0, timestamp=3))
    others = [
        a_usage_event(assignment_id="b"),
        a_usage_event(assignment_id="a", status="error"),
        a_usage_event(assignment_id="a", tenant_id="b"),
    ]
    assert first not in {identity(event) for event in [*others, a_usage_event(request_id="r")]}


def test_an_identity_that_the_router_made_stands_in_the_body_and_holds() -> None:
    made = assignment_identity("acme", "a")
    event = a_usage_event(assignment_id="a", event_id=made)
    assert identity(event) == made == orjson.loads(usage_bytes(event))["event_id"]
    assert made == identity(a_usage_event(assignment_id="a", event_id=made, status="error"))
    assert made not in {
        identity(a_usage_event(assignment_id="a")),
        assignment_identity("b", "a"),
        assignment_identity("acme", "b"),
    }


def test_an_adjustment_has_a_signed_cost_and_settles_under_its_own_identity() -> None:
    made = derive_identity("adjustment", "held", "usage:1")
    event = a_usage_event(
        cost=-2.5e-9,
        event_type=ADJUSTMENT_TYPE,
        event_id=made,
        adjustment="held",
        adjusts=assignment_identity("acme", "a"),
    )
    cost = read_usage_cost(usage_bytes(event))
    # half up, away from zero, as silver rounds
    assert cost == UsageCost("acme", "openai", None, made, -3, True, "held", None)


def test_only_an_adjustment_is_below_zero_or_without_a_reference() -> None:
    assert read_usage_cost(usage_bytes(a_usage_event(cost=-1.0, assignment_id="a"))) is None
    assert read_usage_cost(usage_bytes(a_usage_event())) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"adjustment": "gift"},
        {"event_type": "chat"},
        {"event_id": None},
        {"event_id": "m-1"},
        {"adjustment": None, "assignment_id": "a"},
    ],
)
def test_what_only_looks_like_an_adjustment_is_no_event(wrong: dict[str, str | None]) -> None:
    made = derive_identity("adjustment", "bill", "acme", "1")
    right = {"cost": -1.0, "event_type": ADJUSTMENT_TYPE, "event_id": made, "adjustment": "bill"}
    assert read_usage_cost(usage_bytes(a_usage_event(**right))) is not None
    assert read_usage_cost(usage_bytes(a_usage_event(**{**right, "cost": 1.0, **wrong}))) is None


def test_an_event_with_an_identity_of_its_own_ends_its_reservation_by_itself() -> None:
    named = read_usage_cost(
        usage_bytes(a_usage_event(assignment_id="a", event_id=assignment_identity("acme", "a")))
    )
    derived = read_usage_cost(usage_bytes(a_usage_event(assignment_id="a")))
    assert named is not None
    assert derived is not None
    assert (named.reference, derived.reference) == (None, "a")


def test_a_mark_and_a_told_cost_are_read_back() -> None:
    body = usage_bytes(
        a_usage_event(cost=1.0, told_cost=1e9, assignment_id="a", is_correlated=False)
    )
    cost = read_usage_cost(body)
    assert cost is not None
    assert (cost.is_correlated, cost.nanos) == (False, 1_000_000_000)
    assert b'"told_cost":1000000000.0,' in body
    assert body.endswith(b'"correlated":false}')
