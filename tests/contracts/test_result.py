"""Results of workers: three forms, one ExecResult; what cannot be taken is a Fault that names its
place.
"""

import orjson
import pytest

from router.contracts.acknowledgement import EXEC_ASSIGNMENT_ACK
from router.contracts.decision import RESERVED_TYPES
from router.contracts.extract import extract_ids
from router.contracts.pb.beamline.flow.v1 import flow_pb2
from router.contracts.pb.beamline.worker.v1 import result_pb2
from router.contracts.result import RESULT, ExecResult, read_result
from router.contracts.worker import WorkerMessageLimits
from router.core.message import Message
from router.core.outcome import Fault
from tests.support.requests import GOOD_HEADERS, TRACE, a_message, a_protobuf
from tests.support.workers import ASSIGNED, GIVEN, RESULTS, a_body, a_result, an_ack, in_every_form

STORED_MS = a_result().stored_ms
DAY_MS = 86_400_000
MAX_LATENCY_MS = 30 * DAY_MS


def taken(message: Message, **limits: object) -> ExecResult:
    found = read_result(message, WorkerMessageLimits(**limits)).found
    assert isinstance(found, ExecResult), found
    return found


def refused(message: Message, **limits: object) -> Fault:
    found = read_result(message, WorkerMessageLimits(**limits)).found
    assert isinstance(found, Fault), found
    return found


def sent(data: bytes) -> Message:
    return a_message(data, subject=RESULTS)


@pytest.mark.parametrize("form", ["json", "protobuf", "envelope"])
def test_every_form_is_the_same_result(form: str) -> None:
    assert taken(in_every_form()[form]) == ExecResult(**GIVEN, job_type="chat")


def test_what_its_assignment_may_fill_is_left_open() -> None:
    result = taken(a_result(provider_id=None, job=None, tenant_id=None))
    assert (result.provider_id, result.job_type, result.tenant_id) == (None, None, None)


@pytest.mark.parametrize("name", ["status", "latency_ms", "cost"])
def test_a_required_field_is_named_when_it_is_missing(name: str) -> None:
    fault = refused(a_result(**{name: None}))
    assert (fault.code, fault.message, fault.field) == (
        "SCHEMA_VALIDATION_FAILED",
        f"Missing required field: {name}",
        name,
    )


def test_one_of_the_two_ids_is_enough_and_none_is_not() -> None:
    assert taken(a_result(assignment_id=None)).request_id == "r-1"
    assert taken(a_result(request_id=None)).assignment_id == ASSIGNED
    assert refused(a_result(assignment_id=None, request_id="")).code == "CORRELATION_FIELDS_INVALID"


@pytest.mark.parametrize("status", ["success", "error", "timeout", "cancelled"])
def test_four_statuses_are_legal(status: str) -> None:
    assert taken(a_result(status=status)).status == status


@pytest.mark.parametrize(
    ("field", "value"),
    [("status", value) for value in ("done", "Success", 1, ["success"])]
    + [
        ("latency_ms", value)
        for value in (
            -1,
            -0.5,
            True,
            "812",
            MAX_LATENCY_MS + 1,
            float(MAX_LATENCY_MS + 1),
            2**53 + 1,
            2**63,
            1e300,
        )
    ]
    + [
        ("cost", value)
        for value in (-0.01, False, "0.1", {}, 1_000_000_001, 1e9 + 0.001, 9.99e28, 1.7e308)
    ]
    + [
        ("timestamp", value)
        for value in (
            -5,
            "2024-01-01",
            True,
            1.5,
            1_700_000_000,
            STORED_MS - 40 * DAY_MS - 1,
            STORED_MS + DAY_MS + 1,
            2**63 - 1,
        )
    ]
    + [
        ("job", "chat"),
        ("provider_id", 7),
        ("tenant_id", "a b"),
        ("tenant_id", "_shared"),
        ("error_message", {}),
    ]
    + [("error_code", value) for value in (True, [], {})],
)
def test_a_field_of_the_wrong_kind_is_named(field: str, value: object) -> None:
    fault = refused(a_result(**{field: value}))
    assert (fault.code, fault.field, fault.stage) == ("SCHEMA_VALIDATION_FAILED", field, "schema")


@pytest.mark.parametrize("name", ["assignment_id", "request_id", "trace_id", "msg_id"])
@pytest.mark.parametrize("value", ["a b", "x" * 129, 7, "\n"])
def test_an_id_that_is_not_opaque_is_a_correlation_fault(name: str, value: object) -> None:
    assert (refused(a_result(**{name: value})).code, refused(a_result(**{name: value})).field) == (
        "CORRELATION_FIELDS_INVALID",
        name,
    )


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_a_number_that_is_not_finite_is_refused(number: str) -> None:
    assert (
        refused(sent(orjson.dumps(a_body()).replace(b"0.0123", number.encode()))).code
        == "SCHEMA_VALIDATION_FAILED"
    )


def test_an_infinite_cost_in_protobuf_is_refused() -> None:
    for cost in (float("inf"), float("nan"), -1.0):
        data = result_pb2.ExecResult(
            assignment_id="a", status="success", cost=cost
        ).SerializeToString()
        assert refused(sent(data)).field == "cost"


@pytest.mark.parametrize(
    ("given", "read"), [(812.5, 813), (812.49, 812), (0, 0), (0.49999999999999994, 0)]
)
def test_milliseconds_are_rounded_half_up(given: float, read: int) -> None:
    assert taken(a_result(latency_ms=given)).latency_ms == read
    assert taken(a_result(timestamp=STORED_MS + 1.5)).timestamp == STORED_MS + 2


@pytest.mark.parametrize("timestamp", [STORED_MS - 40 * DAY_MS, STORED_MS + DAY_MS])
def test_a_result_at_its_bounds_is_taken(timestamp: int) -> None:
    result = taken(a_result(latency_ms=MAX_LATENCY_MS, cost=1e9, timestamp=timestamp))
    assert (result.latency_ms, result.cost, result.timestamp) == (MAX_LATENCY_MS, 1e9, timestamp)


def test_the_bounds_of_cost_and_time_are_settings() -> None:
    assert taken(a_result(cost=2e9), max_cost=2e9).cost == 2e9
    assert (
        refused(a_result(cost=2.5), max_cost=2).message
        == "Invalid field: cost must be a number from 0 to 2"
    )
    assert taken(a_result(timestamp=1), max_timestamp_age_ms=STORED_MS).timestamp == 1
    assert (
        taken(a_result(timestamp=2 * STORED_MS), max_timestamp_ahead_ms=STORED_MS).timestamp
        == 2 * STORED_MS
    )
    assert refused(a_result(timestamp=2**63), max_timestamp_ahead_ms=2**64).field == "timestamp"


@pytest.mark.parametrize(
    "fields", [{"latency_ms": 2**53 + 1}, {"cost": 9.99e28}, {"timestamp": 2**63 - 1}]
)
@pytest.mark.parametrize("form", ["json", "protobuf", "envelope"])
def test_a_bound_holds_in_every_form(form: str, fields: dict[str, float]) -> None:
    assert refused(in_every_form(**fields)[form]).field == next(iter(fields))


def test_the_time_defaults_to_the_stream_time_on_either_wire() -> None:
    no_time = result_pb2.ExecResult(assignment_id="a", status="success").SerializeToString()
    for message in (a_result(timestamp=None), a_result(timestamp=0), sent(no_time)):
        assert taken(message).timestamp == message.stored_ms


def test_in_protobuf_an_absent_number_is_zero_and_an_empty_text_is_absent() -> None:
    result = taken(
        sent(result_pb2.ExecResult(assignment_id="a", status="success").SerializeToString())
    )
    assert (result.latency_ms, result.cost, result.provider_id, result.request_id) == (
        0,
        0.0,
        None,
        None,
    )


def test_a_cost_is_never_minus_zero() -> None:
    assert str(taken(a_result(cost=-0.0)).cost) == "0.0"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (1001, "1001"),
        (1001.0, "1001"),
        (4.5, "4.5"),
        ("E7", "E7"),
        ("E" * 129, "E" * 128),
        ("", None),
        (None, None),
    ],
)
def test_a_numeric_error_code_reads_as_its_text(code: object, text: str | None) -> None:
    assert taken(a_result(error_code=code)).error_code == text


def test_a_flat_job_type_fills_a_job_without_type() -> None:
    assert taken(a_result(job={}, job_type="chat")).job_type == "chat"
    assert taken(a_result(job={"type": "embed"}, job_type="chat")).job_type == "embed"


def test_headers_win_over_the_payload() -> None:
    result = taken(a_result(GOOD_HEADERS, tenant_id="other", msg_id="m-1"))
    assert (result.tenant_id, result.trace_id, result.msg_id) == ("acme", TRACE, "n-1")


def test_the_payload_fills_headers_that_are_empty_or_malformed() -> None:
    result = taken(a_result({"tenant_id": "", "trace_id": "a b"}, msg_id="m-1"))
    assert (result.tenant_id, result.trace_id, result.msg_id) == ("acme", "t-1", "m-1")


def test_what_stands_at_the_top_of_an_envelope_wins() -> None:
    body = {"kind": "exec_result", "tenant_id": "top", "version": "1", "data": a_body(version="2")}
    assert taken(a_message(body)).tenant_id == "top"
    assert (
        refused(a_message({"kind": "exec_result", "data": a_body(schema_version="2")})).code
        == "VERSION_UNSUPPORTED"
    )


def test_an_envelope_of_another_kind_or_without_data_is_no_result() -> None:
    assert refused(a_message({"kind": "heartbeat", "data": a_body()})).field == "assignment_id"
    assert refused(a_message({"kind": "exec_result", "data": "x"})).field == "data"


@pytest.mark.parametrize("version", ["1", "1.0", "v1"])
def test_versions_that_read_as_1(version: str) -> None:
    assert taken(a_result(version=version))
    assert taken(a_result({"version": version, "Nats-Msg-Id": "n"}, version="9"))


def test_an_unsupported_version_cannot_be_read_safely() -> None:
    assert refused(a_result({"version": "2", "Nats-Msg-Id": "n"})).code == "VERSION_UNSUPPORTED"
    assert refused(a_result(schema_version="2")).code == "VERSION_UNSUPPORTED"
    assert refused(a_result(version=1)).code == "VERSION_UNSUPPORTED"


def test_violations_are_told_and_do_not_stop_a_result() -> None:
    reading = read_result(a_result({"tenant_id": "other", "traceparent": "x", "cp_phase": "cp9"}))
    assert isinstance(reading.found, ExecResult)
    assert set(reading.violations) == {
        ("traceparent", "not_w3c"),
        ("cp_phase", "unknown"),
        ("Nats-Msg-Id", "missing"),
        ("tenant_id", "mismatch"),
    }
    assert read_result(a_result({"Nats-Foo": "x"})).violations == ()


def test_violations_are_told_of_a_result_that_is_refused_too() -> None:
    assert read_result(a_result({"version": "2", "Nats-Msg-Id": "n"})).violations == (
        ("version", "unsupported"),
    )
    assert read_result(a_message(b"junk", {"trace_id": "t"})).violations == (
        ("Nats-Msg-Id", "missing"),
    )


def test_strict_turns_a_violation_into_a_fault() -> None:
    assert refused(a_result({"trace_id": "t"}), strict=True).code == "HEADER_CONTRACT_VIOLATION"
    assert taken(a_result(GOOD_HEADERS), strict=True)


@pytest.mark.parametrize(
    "data", [b"", b"hello", b"[]", b"{", b"\x00\xff", b"null", b"{" * 5000, b"\xff\xff\xff"]
)
def test_what_is_neither_json_nor_protobuf_is_refused_when_decoding(data: bytes) -> None:
    assert refused(sent(data)).stage == "decode"


def test_truncated_protobuf_and_protobuf_of_another_message_are_refused() -> None:
    whole = in_every_form()["protobuf"].data
    assert refused(sent(whole[:-3])).stage == "decode"
    assert refused(sent(a_protobuf())).code in {
        "CORRELATION_FIELDS_INVALID",
        "SCHEMA_VALIDATION_FAILED",
    }
    assert refused(
        sent(flow_pb2.RouteDecision(provider_id="openai", reason="x").SerializeToString())
    ).field


def test_json_behind_white_space_is_tried_after_protobuf() -> None:
    assert taken(sent(b"\n \t" + orjson.dumps(a_body()))).provider_id == "openai"


def test_size_and_depth_are_refused_in_either_encoding() -> None:
    for form in in_every_form().values():
        assert refused(form, max_payload_bytes=10).code == "PAYLOAD_TOO_LARGE"
    assert refused(a_result(payload=[[[[]]]]), max_depth=3).stage == "decode"


@pytest.mark.parametrize("form", ["json", "protobuf", "envelope"])
def test_a_dead_letter_is_told_the_ids_of_any_form(form: str) -> None:
    seen = extract_ids(in_every_form()[form], RESULT)
    assert seen == {
        "assignment_id": ASSIGNED,
        "request_id": "r-1",
        "tenant_id": "acme",
        "trace_id": "t-1",
    }


def test_a_dead_letter_is_told_the_ids_of_an_ack_and_of_a_decide_request_as_before() -> None:
    assert extract_ids(an_ack(), EXEC_ASSIGNMENT_ACK)["assignment_id"] == ASSIGNED
    assert extract_ids(a_message(a_protobuf()))["message_id"] == "m-1"


@pytest.mark.parametrize("reserved", sorted(RESERVED_TYPES))
@pytest.mark.parametrize("form", in_every_form())
def test_the_types_of_adjustments_and_invocations_are_no_outcomes(form: str, reserved: str) -> None:
    fault = refused(in_every_form(job={"type": reserved})[form])
    assert (fault.code, fault.field) == ("SCHEMA_VALIDATION_FAILED", "job.type")
