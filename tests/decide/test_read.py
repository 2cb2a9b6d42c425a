"""Five forms of a decide request become one RouteRequest; what cannot be taken is a Fault that
names its place.
"""

import base64

import orjson
import pytest
from msgspec.structs import replace

from router.contracts.decision import RESERVED_TYPES, RouteRequest
from router.contracts.extract import extract_ids
from router.contracts.pb.beamline.flow.v1 import flow_pb2
from router.contracts.raw_json import RawJson
from router.core.outcome import Fault
from router.decide.model.read import RequestLimits, RequestReading, read
from tests.support.requests import GOOD_HEADERS, TRACE, a_body, a_message, a_protobuf, every_form


def taken(data: object, headers: dict[str, str] | None = None, **limits: object) -> RouteRequest:
    asked = reading(data, headers, **limits).asked
    assert isinstance(asked, RouteRequest), asked
    return asked


def refused(data: object, headers: dict[str, str] | None = None, **limits: object) -> Fault:
    asked = reading(data, headers, **limits).asked
    assert isinstance(asked, Fault), asked
    return asked


def reading(
    data: object, headers: dict[str, str] | None = None, **limits: object
) -> RequestReading:
    return read(a_message(data, headers), RequestLimits(**limits))


@pytest.mark.parametrize("form", "abcde")
def test_every_form_is_the_same_request(form: str) -> None:
    assert read(every_form()[form]).asked == RouteRequest(
        tenant_id="acme",
        message_type="chat",
        payload=RawJson.encode("hello"),
        request_key="r-1",
        answer_id="r-1",
        policy_id="gold",
        request_id="r-1",
        message_id="m-1",
        trace_id="t-1",
        context={"source": "gateway", "user_id": "u-1"},
        metadata={"source": "gateway"},
        push_assignment=True,
    )


def test_the_smallest_request_gets_every_default() -> None:
    asked = taken(a_body())
    assert (asked.policy_id, asked.push_assignment, asked.context, asked.timestamp_ms) == (
        "default",
        False,
        {},
        None,
    )


def test_message_wins_and_task_fills_what_it_lacks() -> None:
    task = {"type": "embedding", "payload": "from the task"}
    assert taken({**a_body(), "task": task}).message_type == "chat"
    filled = taken({"message": {"tenant_id": "acme"}, "task": task})
    assert (filled.message_type, filled.payload) == ("embedding", RawJson.encode("from the task"))


def test_type_is_an_alias_of_message_type() -> None:
    assert (
        taken({"message": {"tenant_id": "acme", "type": "chat", "payload": 1}}).message_type
        == "chat"
    )


@pytest.mark.parametrize("payload", ["", 0, False, [], {}, {"deep": [None]}])
def test_any_json_value_but_null_is_a_payload(payload: object) -> None:
    assert taken(a_body(payload=payload)).payload == RawJson.encode(payload)


def test_a_reference_stands_for_a_payload() -> None:
    asked = taken({"tenant_id": "acme", "task": {"type": "chat", "payload_ref": "s3://x"}})
    assert (asked.payload, asked.payload_ref) == (None, "s3://x")


@pytest.mark.parametrize(
    ("data", "payload"), [(b"hello", RawJson.encode("hello")), (b"\xff\x00", b"\xff\x00")]
)
def test_a_base64_payload_is_the_bytes_that_protobuf_would_carry(
    data: bytes, payload: object
) -> None:
    text = base64.b64encode(data).decode()
    assert taken(a_body(payload=text, payload_encoding="base64")).payload == payload
    assert taken(a_protobuf(payload=data)).payload == payload


def test_null_means_absent_and_unknown_fields_are_ignored() -> None:
    nulls = dict.fromkeys(
        [
            "policy_id",
            "context",
            "request_id",
            "push_assignment",
            "run_id",
            "version",
            "assignment_subject",
            "task",
        ]
    )
    assert taken({**a_body(metadata=None, idempotency_key=None), **nulls, "surprise": 1}) == taken(
        a_body()
    )


@pytest.mark.parametrize("timestamp", [-(2**63), -1, 0, 2**63 - 1])
def test_a_time_is_any_integer_of_64_bits(timestamp: int) -> None:
    assert taken(a_body(timestamp_ms=timestamp)).timestamp_ms == timestamp


@pytest.mark.parametrize(
    ("data", "name", "field"),
    [
        ({}, "message", "message"),
        ({"tenant_id": "acme", "policy_id": "p"}, "message", "message"),
        ({"message": {}}, "tenant_id", "message.tenant_id"),
        (a_body(tenant_id=""), "tenant_id", "message.tenant_id"),
        ({"task": {"type": "chat", "payload": 1}}, "tenant_id", "tenant_id"),
        (a_body(message_type=""), "message_type", "message.message_type"),
        ({"tenant_id": "acme", "payload": 1}, "message_type", "message_type"),
        (a_body(payload=None), "payload", "message.payload"),
        ({"tenant_id": "acme", "message_type": "chat"}, "payload", "payload"),
        (a_protobuf(tenant_id=""), "tenant_id", "message.tenant_id"),
        (a_protobuf(payload=b""), "payload", "message.payload"),
    ],
)
def test_a_missing_field_is_named_by_its_place(data: object, name: str, field: str) -> None:
    assert replace(refused(data), ids=None) == Fault(
        "SCHEMA_VALIDATION_FAILED", f"Missing required field: {name}", field, "schema"
    )


@pytest.mark.parametrize("data", [{"message": {"tenant_id": "acme"}}, {"tenant_id": 5}, "{", "[]"])
def test_a_refusal_has_the_ids_that_its_dead_letter_would_read(data: object) -> None:
    message = a_message(data)
    found = read(message).asked
    assert isinstance(found, Fault)
    assert found.ids in (None, extract_ids(message))
    assert (found.ids is None) == isinstance(data, str)


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"message": "hello"}, "message"),
        ({**a_body(), "task": []}, "task"),
        (a_body(tenant_id=5), "message.tenant_id"),
        (a_body(tenant_id="../acme"), "message.tenant_id"),
        (a_body(tenant_id="_shared"), "message.tenant_id"),
        (a_body(message_type=5), "message.message_type"),
        (a_body(payload="!", payload_encoding="base64"), "message.payload"),
        (a_body(payload=5, payload_encoding="base64"), "message.payload"),
        (a_body(payload="x", payload_encoding=[]), "message.payload"),
        (a_body(payload=None, payload_ref=""), "message.payload_ref"),
        (a_body(metadata=[]), "message.metadata"),
        (a_body(timestamp_ms="now"), "message.timestamp_ms"),
        (a_body(timestamp_ms=True), "message.timestamp_ms"),
        (a_body(timestamp_ms=2**63), "message.timestamp_ms"),
        (
            b'{"message":{"tenant_id":"acme","message_type":"chat","payload":1,"timestamp_ms":-9223372036854775809}}',
            "message.timestamp_ms",
        ),
        *[
            ({**a_body(), name: []}, name)
            for name in ("constraints", "metadata", "context", "policy_id")
        ],
        ({**a_body(), "policy_id": "*"}, "policy_id"),
        ({**a_body(), "assignment_subject": "$JS.API.STREAM.PURGE.X"}, "assignment_subject"),
        ({**a_body(), "assignment_subject": ""}, "assignment_subject"),
        *[
            ({**a_body(), "push_assignment": odd}, "push_assignment")
            for odd in ("yes", "1", 2, 1.0, [], {}, "")
        ],
        *[
            ({**a_body(), "return_message": odd}, "return_message")
            for odd in ("true", 1, 0, [], {}, "")
        ],
        *[
            ({**a_body(), "return_message": True, "push_assignment": push}, "return_message")
            for push in (True, "true", 1)
        ],
    ],
)
def test_a_field_of_the_wrong_kind_is_named_by_its_place(data: object, field: str) -> None:
    fault = refused(data)
    assert (fault.code, fault.field, fault.stage) == ("SCHEMA_VALIDATION_FAILED", field, "schema")


@pytest.mark.parametrize("place", ["context", "constraints", "metadata", "message.metadata"])
@pytest.mark.parametrize("number", ["18446744073709551616", "-9223372036854775809", "1e400"])
def test_a_number_that_router_reads_has_at_most_64_bits(place: str, number: str) -> None:
    inner, _, name = place.rpartition(".")
    held = b'"%b":{"n":[%b]}' % (name.encode(), number.encode())
    body = b'{"message":{"tenant_id":"acme","message_type":"chat","payload":1%b}%b}'
    fault = refused(body % ((b"," + held, b"") if inner else (b"", b"," + held)))
    assert (fault.field, "64 bits" in fault.message) == (place, True)


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({**a_body(), "request_id": "a b"}, "request_id"),
        ({**a_body(), "request_id": "x" * 129}, "request_id"),
        ({**a_body(), "request_id": 5}, "request_id"),
        (a_body(message_id="ä"), "message.message_id"),
        (a_body(trace_id="\n"), "message.trace_id"),
        (a_body(run_id="a", flow_id="b", step_id=" "), "message.step_id"),
        (a_body(idempotency_key="x" * 257), "message.idempotency_key"),
        (a_body(idempotency_key=""), "message.idempotency_key"),
    ],
)
def test_an_id_that_cannot_tie_messages_together_is_a_correlation_fault(
    data: object, field: str
) -> None:
    fault = refused(data)
    assert (fault.code, fault.field, fault.stage) == (
        "CORRELATION_FIELDS_INVALID",
        field,
        "correlation",
    )


@pytest.mark.parametrize(
    ("given", "lacking"),
    [
        ({"run_id"}, "flow_id"),
        ({"run_id", "flow_id"}, "step_id"),
        ({"flow_id"}, "run_id"),
        ({"step_id", "flow_id"}, "run_id"),
    ],
)
def test_run_flow_and_step_belong_together(given: set[str], lacking: str) -> None:
    fault = refused(a_body(**dict.fromkeys(given, "x")))
    assert (fault.message, fault.field) == (
        f"Missing required field: {lacking}",
        f"message.{lacking}",
    )


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("tenant_id", 128),
        ("policy_id", 128),
        ("request_id", 128),
        ("message_type", 256),
        ("type", 256),
        ("payload_ref", 4096),
        ("idempotency_key", 256),
    ],
)
def test_a_text_is_taken_up_to_its_bound(name: str, most: int) -> None:
    """By the reader of ordinary requests, and by the careful one."""
    whole = {"tenant_id": "acme", "payload": 1, "message_type": "chat"}
    if name in ("type", "payload_ref"):
        del whole["message_type" if name == "type" else "payload"]
    for beside in ({}, {"timestamp_ms": 1}):
        body = {"request_id": "r-1", **whole, **beside, "message_type": "chat"}
        if name == "type":
            del body["message_type"]
        taken({**body, name: "x"})
        taken({**body, name: "x" * most})
        assert name in (refused({**body, name: "x" * (most + 1)}).field or "")


def test_rare_fields_are_read_from_either_level() -> None:
    rare = {
        "run_id": "r",
        "flow_id": "f",
        "step_id": "s",
        "idempotency_key": "k" * 256,
        "timestamp_ms": 5,
    }
    assert taken(a_body(**rare)) == taken({**a_body(), **rare})
    assert taken(a_body(**rare)).step_id == "s"


@pytest.mark.parametrize(
    ("value", "push"),
    [
        (True, True),
        ("true", True),
        (1, True),
        (False, False),
        ("false", False),
        (0, False),
        (None, False),
    ],
)
def test_push_assignment_has_six_spellings(value: object, push: bool) -> None:
    assert taken({**a_body(), "push_assignment": value}).push_assignment is push


@pytest.mark.parametrize(
    ("value", "push"), [("1", True), ("true", True), ("0", False), ("", False)]
)
def test_protobuf_takes_push_assignment_from_a_header(value: str, push: bool) -> None:
    assert taken(a_protobuf(), {"push_assignment": value}).push_assignment is push


def test_an_assignment_subject_must_be_configured() -> None:
    assert (
        taken(
            {**a_body(), "assignment_subject": "x.y"}, assignment_subjects=("x.y",)
        ).assignment_subject
        == "x.y"
    )


def test_header_beats_top_level_beats_message() -> None:
    body = {**a_body(tenant_id="inner", trace_id="inner"), "tenant_id": "top", "trace_id": "top"}
    assert (taken(body).tenant_id, taken(body).trace_id) == ("top", "top")
    asked = taken(body, GOOD_HEADERS)
    assert (asked.tenant_id, asked.trace_id, asked.message_id) == ("acme", TRACE, "n-1")


@pytest.mark.parametrize("bad", ["", "../acme", "_shared", "a b", "ä"])
def test_a_malformed_header_counts_as_absent(bad: str) -> None:
    headers = {**GOOD_HEADERS, "tenant_id": bad, "trace_id": "" if bad != "a b" else bad}
    asked = taken(a_body(trace_id="t-1"), headers)
    assert (asked.tenant_id, asked.trace_id) == ("acme", "t-1")


def test_routing_context_is_merged_and_the_later_wins() -> None:
    layers = [("constraints", 1), ("metadata", 2), ("context", 4)]
    body = {
        **a_body(metadata={"m": 3, "x": 3, "y": 3}),
        **{name: {name[0]: n, "x": n, "y": n} for name, n in layers},
    }
    del body["context"]["y"]
    assert taken(body).context == {"c": 4, "m": 3, "x": 4, "y": 3}
    assert taken(body).constraints == {"c": 1, "x": 1, "y": 1}


@pytest.mark.parametrize("name", ["providers", "excluded_providers"])
@pytest.mark.parametrize(
    "value",
    [
        "a",
        7,
        {},
        [],
        [1],
        ["a", None],
        [["a"]],
        [""],
        ["a b"],
        ["a/b"],
        ["x" * 129],
        ["é"],
        ["a"] * 65,
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_list_of_providers_is_one_of_names(name: str, value: object) -> None:
    fault = refused({**a_body(), "constraints": {"max_cost": 1, name: value}})
    assert (fault.code, fault.field) == ("SCHEMA_VALIDATION_FAILED", f"constraints.{name}")
    assert "1..64 names of providers" in fault.message


@pytest.mark.parametrize("name", ["providers", "excluded_providers"])
@pytest.mark.parametrize("value", [["a"], ["_a.b:c-d", "a", "a"], ["x" * 128] * 64, None])
def test_a_list_of_providers_is_read_as_it_stands(name: str, value: object) -> None:
    body = {**a_body(), "constraints": {name: value}}
    assert taken(body).constraints == {name: value}


def test_a_list_of_the_context_does_not_narrow() -> None:
    asked = taken({**a_body(), "context": {"providers": "any"}, "constraints": {"max_cost": 1}})
    assert (asked.context["providers"], asked.constraints) == ("any", {"max_cost": 1})


@pytest.mark.parametrize("form", ["a", "b", "c", "d"])
def test_every_form_in_json_may_ask_for_the_message(form: str) -> None:
    body = {**orjson.loads(every_form()[form].data), "push_assignment": False}
    assert [
        taken({**body, **wish}).return_message
        for wish in (
            {"return_message": True},
            {"return_message": False},
            {"return_message": None},
            {},
        )
    ] == [True, False, False, False]


def test_the_message_is_asked_for_at_the_top() -> None:
    assert not taken(a_body(return_message=True)).return_message


def test_constraints_alone_are_the_context() -> None:
    assert taken({**a_body(), "constraints": {"max_cost": 1}}).context == {"max_cost": 1}


@pytest.mark.parametrize("version", ["1", "1.0", "v1"])
@pytest.mark.parametrize("name", ["version", "schema_version"])
def test_supported_versions_are_read(version: str, name: str) -> None:
    taken({**a_body(), name: version})
    taken(a_body(**{name: version}))


@pytest.mark.parametrize(
    "data",
    [
        {**a_body(), "version": "2"},
        {**a_body(), "schema_version": "0"},
        a_body(version="3"),
        {"version": 2},
    ],
)
def test_an_unsupported_version_is_refused(data: object) -> None:
    fault = refused({**a_body(), **data})
    assert (fault.code, fault.field, fault.stage) == ("VERSION_UNSUPPORTED", "version", "version")


def test_the_header_version_beats_the_payload() -> None:
    taken({**a_body(), "version": "9"}, GOOD_HEADERS)
    seen = reading({**a_body(), "version": "1"}, {**GOOD_HEADERS, "version": "9"})
    assert isinstance(seen.asked, Fault)
    assert (seen.asked.code, seen.violations) == (
        "VERSION_UNSUPPORTED",
        (("version", "unsupported"),),
    )


def test_violations_are_told_and_do_not_stop_a_request() -> None:
    seen = reading(a_body(), {**GOOD_HEADERS, "tenant_id": "other", "cp_phase": "x"})
    assert seen.violations == (("cp_phase", "unknown"), ("tenant_id", "mismatch"))
    assert (seen.tenant_id, isinstance(seen.asked, RouteRequest)) == ("other", True)


def test_strict_makes_a_violation_a_fault() -> None:
    fault = refused(a_body(), {**GOOD_HEADERS, "cp_phase": "x"}, strict=True)
    assert (fault.code, fault.field, fault.stage) == (
        "HEADER_CONTRACT_VIOLATION",
        "cp_phase",
        "headers",
    )


@pytest.mark.parametrize(
    ("data", "headers", "key", "answer_id"),
    [
        (a_body(idempotency_key="k", message_id="m"), {"Nats-Msg-Id": "n"}, "k", "m"),
        ({**a_body(message_id="m"), "request_id": "r"}, {"Nats-Msg-Id": "n"}, "r", "r"),
        (a_body(message_id="m"), {"Nats-Msg-Id": "n"}, "n", "m"),
        (a_body(), {"Nats-Msg-Id": "n"}, "n", "n"),
    ],
)
def test_identity_and_answer_id_follow_their_orders(
    data: object, headers: dict[str, str], key: str, answer_id: str
) -> None:
    asked = taken(data, headers)
    assert (asked.request_key, asked.answer_id) == (key, answer_id)


def test_a_request_without_ids_is_known_by_its_place_on_every_delivery() -> None:
    first, again = (read(a_message(a_body(), deliveries=n)).answer_id for n in (1, 2))
    other = read(a_message(a_body(), sequence=8)).answer_id
    assert first == again != other
    assert len(first) == 36


def test_accept_asks_for_protobuf() -> None:
    assert taken(a_body(), {"Accept": "application/x-protobuf"}).wants_protobuf
    assert not taken(a_body(), {"Accept": "application/json"}).wants_protobuf


def test_json_behind_white_space_is_tried_after_protobuf() -> None:
    assert taken(b"\n \t" + orjson.dumps(a_body())).tenant_id == "acme"


def test_json_that_also_decodes_as_protobuf_is_json_when_that_has_no_ids() -> None:
    # "\n{" reads as field 1 of 123 bytes, '"m' as a message_type of 109; the blanks behind are
    # unknown numbers.
    body = orjson.dumps(a_body())[1:].ljust(111) + b" " * 12
    assert flow_pb2.RouteRequest.FromString(b"\n{" + body).message.message_type
    assert taken(b"\n{" + body).payload == RawJson.encode("hello")


@pytest.mark.parametrize("data", [b"", b"hello", b"[]", b"{", b"\x00\xff", b"null", b"{" * 5000])
def test_what_is_neither_json_nor_protobuf_is_refused_when_decoding(data: bytes) -> None:
    assert refused(data).stage == "decode"


def test_size_is_refused_in_either_encoding() -> None:
    for data in (orjson.dumps(a_body()), a_protobuf()):
        assert refused(data, max_payload_bytes=10).code == "PAYLOAD_TOO_LARGE"


def test_a_refused_request_is_answered_with_the_ids_that_could_be_read() -> None:
    seen = reading({"request_id": "r-1", "trace_id": "t-1", "message": {"tenant_id": "acme"}})
    assert (seen.answer_id, seen.trace_id, seen.tenant_id) == ("r-1", "t-1", "acme")
    assert reading(b"junk", {"Nats-Msg-Id": "n"}).answer_id == "n"


@pytest.mark.parametrize("reserved", sorted(RESERVED_TYPES))
def test_the_types_of_adjustments_and_invocations_are_no_requests(reserved: str) -> None:
    """What is billed under them would look like an adjustment, and count nowhere, or like an
    invocation, which waits for no result.
    """
    for body in (
        a_body(message_type=reserved),
        a_body(message_type="", type=reserved),
        {"tenant_id": "acme", "task": {"type": reserved, "payload": "hello"}},
        {"tenant_id": "acme", "message_type": reserved, "payload": "hello", "metadata": {"a": 1}},
        a_protobuf(message_type=reserved),
    ):
        fault = refused(body)
        assert (fault.code, (fault.field or "").endswith("type")) == (
            "SCHEMA_VALIDATION_FAILED",
            True,
        )


MANY = [1] * 20_000
NAMES = {f"name-{number}": 1 for number in range(20_001)}


@pytest.mark.parametrize(
    "data",
    [
        a_body(metadata=NAMES),
        {**a_body(), "context": {"list": MANY}},
        {**a_body(), "constraints": {"a": {"b": [[[{}]]] * 6_000}}},
        {**a_body(), **NAMES},
        {**a_body(), "context": MANY},
        {"task": {"type": "chat", "payload": 1, "more": MANY}, "tenant_id": "acme"},
        {"tenant_id": "acme", "message_type": "chat", "payload": 1, "metadata": NAMES},
    ],
    ids=["metadata", "context", "nested", "top level", "no object", "task", "flat"],
)
def test_more_values_than_the_bound_are_refused_wherever_they_stand(data: object) -> None:
    fault = refused(data)
    assert fault.message == "More than 20000 values stand beside the payload"
    assert fault.code == "SCHEMA_VALIDATION_FAILED"


def test_more_entries_than_the_bound_are_refused_in_protobuf() -> None:
    request = flow_pb2.RouteRequest.FromString(a_protobuf())
    request.context.update(dict.fromkeys(NAMES, "1"))
    fault = refused(request.SerializeToString())
    assert fault.message == "More than 20000 values stand beside the payload"


def test_the_bound_of_values_may_be_another_one() -> None:
    data = {**a_body(), "context": {"text": "x" * 20_000, "list": [1] * 500}}
    assert taken(data, max_values=600).context["list"] == [1] * 500
    assert "More than 400 values" in refused(data, max_values=400).message


def test_as_many_values_as_the_bound_allows_are_read_whatever_stands_in_texts() -> None:
    commas = "[" + "," * 30_000
    asked = taken(
        {**a_body(payload=[[1]] * 50_000), "context": {"text": commas, "list": MANY[:19_000]}}
    )
    assert (asked.context["text"], len(asked.context["list"])) == (commas, 19_000)
