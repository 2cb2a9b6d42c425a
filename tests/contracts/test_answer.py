"""The bytes of an answer."""

import math

import orjson
import pytest
from msgspec.structs import replace

from router.contracts import answer
from router.contracts.decision import Decision
from router.contracts.pb.beamline.flow.v1.flow_pb2 import RouteDecision

DECISION = Decision(
    "openai", "weighted", 50, 320.0, 0.01, {"policy_id": "gold", "policy_version": "3"}
)


def test_success_has_the_shape_of_the_page() -> None:
    assert answer.success(DECISION, "r-1", "t-1") == (
        b'{"ok":true,"decision":{"provider_id":"openai","reason":"weighted","priority":50,"expected_latency_ms":320,'
        b'"expected_cost":0.01,"metadata":{"policy_id":"gold","policy_version":"3"}},"context":{"request_id":"r-1","trace_id":"t-1"}}'
    )


def test_an_absent_trace_is_left_out() -> None:
    assert orjson.loads(answer.success(DECISION, "r-1"))["context"] == {"request_id": "r-1"}


@pytest.mark.parametrize("odd", ['a"b', "a\\b", '"}}', "\\"])
def test_ids_with_quotes_and_backslashes_come_back_as_they_were(odd) -> None:
    assert orjson.loads(answer.success(DECISION, odd, odd))["context"] == {
        "request_id": odd,
        "trace_id": odd,
    }


def test_equal_objects_of_other_content_never_share_a_fragment() -> None:
    for number in range(3000):  # more than are remembered; addresses come back
        decision = Decision(f"p{number}", "weighted", 50, 1.0, 0.0)
        assert (
            orjson.loads(answer.success(decision, "r"))["decision"]["provider_id"] == f"p{number}"
        )


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_expected_figures_are_always_json_numbers(odd) -> None:
    decision = orjson.loads(answer.success(Decision("p", "weighted", 50, odd, odd), "r"))[
        "decision"
    ]
    assert (decision["expected_latency_ms"], decision["expected_cost"]) == (0, 0.0)


def test_failure_has_the_shape_of_the_page() -> None:
    said = answer.failure(
        "invalid_request",
        "Missing required field: tenant_id",
        {"field": "message.tenant_id"},
        "r-1",
        "t-1",
    )
    assert orjson.loads(said) == {
        "ok": False,
        "error": {
            "code": "invalid_request",
            "message": "Missing required field: tenant_id",
            "details": {"field": "message.tenant_id"},
        },
        "context": {"request_id": "r-1", "trace_id": "t-1"},
    }


def test_a_failure_leaves_out_what_is_not_known() -> None:
    told = b'{"ok":false,"error":{"code":"internal","message":"x"},"context":{"request_id":"r-1"}}'
    assert answer.failure("internal", "x", None, "r-1") == told


def test_protobuf_says_the_same_as_json() -> None:
    decoded = RouteDecision.FromString(answer.success_protobuf(DECISION))
    shown = orjson.loads(answer.success(DECISION, "r"))["decision"]
    assert {name.name: value for name, value in decoded.ListFields() if name.name != "metadata"} | {
        "metadata": dict(decoded.metadata)
    } == shown


@pytest.mark.parametrize("latency_ms", [2.0**63, 1e300, 2**80])
def test_a_latency_beyond_every_integer_is_told_as_the_largest(latency_ms: float) -> None:
    decision = replace(DECISION, expected_latency_ms=latency_ms)
    assert (
        RouteDecision.FromString(answer.success_protobuf(decision)).expected_latency_ms
        == answer.MAX_WHOLE
    )
    assert (
        orjson.loads(answer.success(decision, "r-1"))["decision"]["expected_latency_ms"]
        == answer.MAX_WHOLE
    )
