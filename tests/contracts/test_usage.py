"""The usage event, byte by byte."""

import hashlib
import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contracts.usage import UsageEvent, decimal, identity, usage_bytes


def an_event(**fields: object) -> UsageEvent:
    known = {"tenant_id": "acme", "provider_id": "openai", "event_type": "chat", "latency_ms": 812, "cost": 0.5}
    return UsageEvent(**{**known, "status": "success", "timestamp": 17, **fields})


def test_fields_stand_in_the_order_of_the_contract() -> None:
    assert usage_bytes(an_event(trace_id="t", assignment_id="a", request_id="r")) == (
        b'{"version":"1","tenant_id":"acme","provider_id":"openai","event_type":"chat","latency_ms":812,"cost":0.5,'
        b'"status":"success","timestamp":17,"trace_id":"t","assignment_id":"a","request_id":"r"}'
    )


def test_what_is_absent_is_left_out() -> None:
    assert list(orjson.loads(usage_bytes(an_event(request_id="r"))))[-2:] == ["timestamp", "request_id"]


@pytest.mark.parametrize(("cost", "text"), [(0.0, "0.0"), (3.0, "3.0"), (1e-7, "1.0e-07"), (1e22, "1.0e+22"), (1.5e-9, "1.5e-09")])
def test_a_cost_has_a_decimal_point(cost: float, text: str) -> None:
    assert decimal(cost) == text
    assert b'"cost":' + text.encode() + b"," in usage_bytes(an_event(cost=cost))


@given(st.floats(min_value=0, allow_infinity=False, allow_nan=False))
def test_a_cost_reads_back_as_it_was(cost: float) -> None:
    assert "." in decimal(cost)
    assert json.loads(decimal(cost)) == orjson.loads(decimal(cost)) == cost


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)


@given(st.floats(min_value=0, allow_infinity=False, allow_nan=False), texts, st.none() | texts, st.booleans())
def test_the_bytes_are_those_of_the_fields_one_by_one(cost: float, text: str, trace_id: str | None, is_correlated: bool) -> None:
    event = an_event(provider_id=text, cost=cost, trace_id=trace_id, assignment_id="a", is_correlated=is_correlated)
    trace = {"trace_id": trace_id} if trace_id is not None else {}
    mark = {} if is_correlated else {"correlated": False}
    usual = {"version": "1", "tenant_id": "acme", "provider_id": text, "event_type": "chat", "latency_ms": 812}
    body = {**usual, "cost": orjson.Fragment(decimal(cost)), "status": "success", "timestamp": 17, **trace, "assignment_id": "a", **mark}
    assert usage_bytes(event) == orjson.dumps(body)


def test_the_identity_is_computed_from_the_body() -> None:
    event = an_event(assignment_id='a"\\', request_id="r")
    body = json.loads(usage_bytes(event))
    array = json.dumps([body["tenant_id"], body["assignment_id"], body["status"]], separators=(",", ":"))
    assert identity(event) == "usage:" + hashlib.sha256(array.encode()).hexdigest()[:32]


def test_the_identity_is_that_of_one_outcome_of_one_assignment() -> None:
    first = identity(an_event(assignment_id="a", request_id="r"))
    assert first == identity(an_event(assignment_id="a", cost=9.0, timestamp=3))
    others = [an_event(assignment_id="b"), an_event(assignment_id="a", status="error"), an_event(assignment_id="a", tenant_id="b")]
    assert first not in {identity(event) for event in [*others, an_event(request_id="r")]}
