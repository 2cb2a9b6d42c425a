"""Assignments as workers receive them, and as the bucket keeps them."""

import uuid

import orjson
import pytest
from msgspec.structs import replace

from router.contracts.acknowledgement import ExecAssignmentAck
from router.contracts.assignment import (
    assignment_bytes,
    assignment_headers,
    assignment_id_of,
    deadline_ms,
    read_assignment,
)
from router.contracts.assignment_record import (
    AssignmentAcknowledgement,
    acknowledgement_key,
    build_record,
    read_record,
    read_stored_acknowledgement,
    write_acknowledgement,
)
from router.contracts.decision import RouteRequest
from router.contracts.raw_json import RawJson
from router.contracts.stored_record import record_bytes
from router.core import ids
from router.core.errors import Poison
from tests.support.requests import TRACEPARENT
from tests.support.workers import ASSIGNED, DECISION, REQUESTED_MS, an_assignment

REQUEST = RouteRequest(
    tenant_id="acme",
    message_type="chat",
    payload=RawJson.encode({"text": "hi"}),
    request_key="r-1",
    answer_id="r-1",
    trace_id="t-1",
)


def written(request: RouteRequest = REQUEST) -> dict[str, object]:
    return orjson.loads(assignment_bytes(ASSIGNED, request, DECISION))


def test_the_shape_and_order_are_those_of_the_contract() -> None:
    decision = {
        "provider_id": "openai",
        "reason": "weighted",
        "priority": 50,
        "expected_latency_ms": 800,
        "expected_cost": 0.01,
    }
    expected = {
        "version": "1",
        "assignment_id": ASSIGNED,
        "request_id": "r-1",
        "tenant_id": "acme",
        "trace_id": "t-1",
        "executor": {"provider_id": "openai", "channel": "nats"},
        "job": {"type": "chat", "payload": {"text": "hi"}},
        "options": {
            "priority": 50,
            "deadline_ms": 5000,
            "retry": {"max_attempts": 2, "backoff_ms": 200},
        },
        "correlation": {"trace_id": "t-1"},
        "decision": {**decision, "metadata": {"policy_id": "default", "policy_version": "1"}},
        "metadata": {"k": "v"},
    }
    assert assignment_bytes(
        ASSIGNED, replace(REQUEST, metadata={"k": "v"}), DECISION
    ) == orjson.dumps(expected)


def test_what_is_absent_is_left_out_but_for_the_payload() -> None:
    bare = written(replace(REQUEST, trace_id=None, payload=None, payload_ref="s3://x"))
    assert bare["correlation"] == {}
    assert "trace_id" not in bare
    assert bare["job"] == {"type": "chat", "payload": None, "payload_ref": "s3://x"}


def test_workflow_ids_stand_behind_the_trace() -> None:
    ids = {"run_id": "1", "flow_id": "2", "step_id": "3"}
    assert list(written(replace(REQUEST, **ids)))[4:8] == ["trace_id", *ids]


def test_bytes_that_are_no_text_are_base64() -> None:
    assert written(replace(REQUEST, payload=b"\xff"))["job"] == {
        "type": "chat",
        "payload": "/w==",
        "payload_encoding": "base64",
    }


@pytest.mark.parametrize(
    ("latency", "deadline"),
    [(0, 5000), (500, 5000), (1000.1, 5001), (2000, 10000), (12_001, 60_000), (1e18, 60_000)],
)
def test_the_deadline_is_five_times_the_latency_within_bounds(
    latency: float, deadline: int
) -> None:
    assert deadline_ms(latency) == deadline


def test_the_id_is_a_valid_uuid_of_tenant_and_request() -> None:
    assert str(uuid.UUID(ASSIGNED)) == ASSIGNED == assignment_id_of("acme", "r-1")
    assert assignment_id_of("other", "r-1") != ASSIGNED


def test_headers_carry_what_is_known() -> None:
    headers = {"version": "1", "tenant_id": "acme", "trace_id": "t-1", "traceparent": TRACEPARENT}
    assert assignment_headers(REQUEST, TRACEPARENT) == headers
    assert assignment_headers(replace(REQUEST, trace_id=None), None) == {
        "version": "1",
        "tenant_id": "acme",
    }


def test_an_assignment_reads_back() -> None:
    assert (
        read_assignment(assignment_bytes(ASSIGNED, REQUEST, DECISION), requested_at_ms=REQUESTED_MS)
        == an_assignment()
    )


def test_a_record_keeps_every_byte_of_its_assignment() -> None:
    stored = record_bytes(
        build_record(
            ASSIGNED,
            REQUEST,
            DECISION,
            subject="caf.x",
            traceparent=TRACEPARENT,
            content="ab",
            requested_at_ms=REQUESTED_MS,
        )
    )
    record = read_record(stored)
    assert bytes(record.assignment) == assignment_bytes(ASSIGNED, REQUEST, DECISION)
    assert (record.subject, record.content, record.headers["traceparent"]) == (
        "caf.x",
        "ab",
        TRACEPARENT,
    )
    assert record.read_assignment() == an_assignment(listed_cost=DECISION.listed_cost)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b'{"subject":"\xff"}',
        b'{"x":' + b"[" * 100_000,
        b'{"version":"1","subject":"a","headers":{},"assignment":7}',
    ],
)
def test_bytes_that_no_router_wrote_are_poison(data: bytes) -> None:
    with pytest.raises(Poison):
        read_record(data).read_assignment()


@pytest.mark.parametrize("message", [None, "no model here"])
def test_the_state_that_an_acknowledgement_leaves_is_read_back(message: str | None) -> None:
    ack = ExecAssignmentAck(
        assignment_id="a-1", status="rejected", acknowledged_at=1_700_000_000_000, message=message
    )
    assert read_stored_acknowledgement(write_acknowledgement(ack)) == AssignmentAcknowledgement(
        "rejected", 1_700_000_000_000, message
    )


def test_the_state_stands_beside_its_record_under_a_key_no_record_can_have() -> None:
    assert acknowledgement_key("a-1") == "a-1.ack"
    assert acknowledgement_key("a-1") != ids.key("a-1.ack")


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"status":"accepted"}', b'{"status":"\xff"}', b'{"x":' + b"[" * 100_000]
)
def test_bytes_that_are_no_state_are_poison(data: bytes) -> None:
    with pytest.raises(Poison):
        read_stored_acknowledgement(data)
