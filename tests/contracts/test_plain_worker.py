"""What the reader of ordinary results and acknowledgements reads, the careful reader reads alike."""

from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.contracts.acknowledgement import (
    ACKNOWLEDGEMENT_SPEC,
    read_acknowledgement,
    read_acknowledgement_carefully,
    read_plain_acknowledgement,
)
from router.contracts.message_spec import SHARED, MessageSpec
from router.contracts.result import (
    RESULT_SPEC,
    read_carefully,
    read_plain_result,
    read_result,
)
from router.contracts.worker import DAY_MS, DEFAULT_LIMITS, WorkerMessageLimits
from router.core.message import Message
from tests.support.requests import GOOD_HEADERS, a_message
from tests.support.workers import (
    ACKS,
    ASSIGNED,
    RESULTS,
    a_body,
    a_protobuf_ack,
    a_result,
    an_ack,
    in_every_form,
)

STORED_MS = a_result().stored_ms
LITERALS = (
    *(
        "null",
        "true",
        "0",
        "-0",
        "-0.0",
        "1.0",
        "0.5",
        "1E5",
        "1e400",
        "-1",
        "-1e-400",
        "01",
        "NaN",
        "18446744073709551616",
    ),
    *(
        "99999999999999999999999999",
        "9223372036854775807",
        "9223372036854775808",
        "1000000000.0000001",
        "[1,]",
        '{"a":1,"a":2}',
        '""',
    ),
    *(
        '"\\ud800"',
        '"\\ud83d\\ude00"',
        '"\\u0000"',
        '"\x01"',
        '"\\q"',
        '"\xff"',
        '"a b"',
        f'"{"x" * 200}"',
        '"success"',
        '"error"',
    ),
    *(
        '"acme"',
        '"_x"',
        '{"type":"chat"}',
        '{"type":""}',
        '{"type":7}',
        '{"type":"chat","more":1}',
        "[]",
        "{}",
        '"1"',
        '"v1"',
        '"2"',
    ),
    *(
        str(STORED_MS),
        str(STORED_MS + DAY_MS + 1),
        str(STORED_MS - 41 * DAY_MS),
        "[[[[[[[[[[1]]]]]]]]]]",
    ),
)
NAMES = (
    *(field.name for field in (*SHARED, *RESULT_SPEC.fields)),
    *("output", "version", "schema_version", "kind", "data", "more"),
)
literals = st.sampled_from(LITERALS) | st.text(max_size=5).map(
    lambda text: orjson.dumps(text.encode("utf-8", "replace").decode()).decode()
)
fields = st.lists(st.tuples(st.sampled_from(NAMES), literals), max_size=4)
headers = st.dictionaries(
    st.sampled_from([*GOOD_HEADERS, "traceparent", "cp_phase", "x-first-stored-ms"]),
    st.sampled_from(
        ["", "acme", "1", "2", "m-1", "a b", "cp1", "_x", str(STORED_MS - DAY_MS), "x" * 200]
    ),
    max_size=4,
) | st.just(GOOD_HEADERS)


def agrees(message: Message, limits: WorkerMessageLimits = DEFAULT_LIMITS) -> bool:
    """Whether it is an ordinary result; read as one or not, the careful reader must say the same."""
    # -0.0 equals 0.0
    assert repr(read_result(message, limits)) == repr(read_carefully(message, limits))
    return read_plain_result(message, limits) is not None


def agrees_on_ack(message: Message) -> bool:
    """The same of an acknowledgement."""
    assert read_acknowledgement(message) == read_acknowledgement_carefully(message)
    return read_plain_acknowledgement(message, DEFAULT_LIMITS) is not None


def with_fields(
    added: list[tuple[str, str]], left_out: str = "", body: Mapping[str, object] | None = None
) -> bytes:
    usual = {
        name: orjson.dumps(value).decode()
        for name, value in (body or a_body()).items()
        if name != left_out
    }
    parts = [f'"{name}":{value}' for name, value in [*usual.items(), *added]]
    return ("{" + ",".join(parts) + "}").encode("utf-8", "surrogatepass")


@settings(max_examples=400, deadline=None)
@given(fields, st.sampled_from(["", *NAMES]), headers)
def test_what_both_read_they_read_alike(
    added: list[tuple[str, str]], left_out: str, given_headers: dict[str, str]
) -> None:
    agrees(a_message(with_fields(added, left_out), given_headers, subject=RESULTS))


@pytest.mark.parametrize("name", NAMES)
def test_each_literal_of_each_field_is_read_alike(name: str) -> None:
    for literal in LITERALS:
        for given_headers in ({}, GOOD_HEADERS):
            agrees(a_message(with_fields([(name, literal)], name), given_headers, subject=RESULTS))
            agrees(a_message(with_fields([(name, literal)]), given_headers, subject=RESULTS))


LIMITS = (
    {"max_cost": 0.001},
    {"max_payload_bytes": 20},
    {"max_depth": 1},
    {"max_timestamp_age_ms": 0},
    {"strict": True},
)


@pytest.mark.parametrize("limits", LIMITS)
def test_limits_hold_for_both(limits: dict[str, float]) -> None:
    agrees(a_result(), WorkerMessageLimits(**limits))


@pytest.mark.parametrize("timestamp", [-1, 0, 2**63 - 1, 2**63])
def test_a_time_before_the_epoch_or_of_more_than_64_bits_is_none_for_both(timestamp: int) -> None:
    agrees(
        a_result(timestamp=timestamp),
        WorkerMessageLimits(max_timestamp_age_ms=2 * STORED_MS, max_timestamp_ahead_ms=2**64),
    )


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 400), st.binary(max_size=3), st.booleans())
def test_a_damaged_result_is_read_alike(at: int, bytes_in: bytes, is_cut: bool) -> None:
    data = a_result().data
    agrees(
        a_message(
            data[:at] + bytes_in + data[at + (0 if is_cut else len(bytes_in)) :],
            GOOD_HEADERS,
            subject=RESULTS,
        )
    )


def test_the_usual_result_is_an_ordinary_one_and_the_other_forms_are_not() -> None:
    forms = in_every_form()
    assert [form for form, message in forms.items() if agrees(message)] == ["json"]
    assert agrees(
        a_result(
            GOOD_HEADERS,
            metadata={"worker_id": "w", "attempts": 1},
            output="done",
            error_code="5001",
            error_message="late",
        )
    )


# A value of each field, which is read as it is given; a message id is a header.
GIVEN_RESULT = {
    "assignment_id": ASSIGNED,
    "request_id": "r-1",
    "status": "error",
    "latency_ms": 7,
    "cost": 0.5,
    "timestamp": STORED_MS - 1,
    "tenant_id": "acme",
    "provider_id": "openai",
    "job_type": "chat",
    "trace_id": "t-1",
    "error_code": "2001",
    "error_message": "the handler raised",
    "retry_after_ms": 9,
    "msg_id": "m-1",
}
GIVEN_ACK = {
    "assignment_id": ASSIGNED,
    "status": "rejected",
    "acknowledged_at": STORED_MS - 1,
    "message": "full",
    "request_id": "r-1",
    "tenant_id": "acme",
    "trace_id": "t-1",
    "msg_id": "m-1",
}
PLAIN_READERS = [
    (RESULT_SPEC, read_plain_result, GIVEN_RESULT),
    (ACKNOWLEDGEMENT_SPEC, read_plain_acknowledgement, GIVEN_ACK),
]


@pytest.mark.parametrize(
    ("spec", "read_plain", "given"), PLAIN_READERS, ids=lambda one: getattr(one, "name", "")
)
def test_each_field_that_is_given_arrives(
    spec: MessageSpec[Any],
    read_plain: Callable[[Message, WorkerMessageLimits], Any],
    given: Mapping[str, object],
) -> None:
    assert set(spec.made.__struct_fields__) == set(given), "give a value of each field above"
    body = {name: value for name, value in given.items() if name != "msg_id"}
    message = a_message(orjson.dumps(body), {"Nats-Msg-Id": "m-1"}, subject=RESULTS)
    assert read_plain(message, DEFAULT_LIMITS) == spec.made(**given)


ACK_NAMES = (
    *(field.name for field in (*SHARED, *ACKNOWLEDGEMENT_SPEC.fields)),
    *("version", "kind", "more"),
)
ACK = {
    "assignment_id": ASSIGNED,
    "request_id": "r-1",
    "status": "accepted",
    "tenant_id": "acme",
    "acknowledged_at": STORED_MS,
}


@pytest.mark.parametrize("name", ACK_NAMES)
def test_each_literal_of_each_field_of_an_acknowledgement_is_read_alike(name: str) -> None:
    for literal in (*LITERALS, '"accepted"', '"rejected"'):
        for given_headers in (
            {},
            GOOD_HEADERS,
            {"Nats-Msg-Id": "a b"},
            {**GOOD_HEADERS, "tenant_id": ""},
        ):
            agrees_on_ack(
                a_message(with_fields([(name, literal)], name, ACK), given_headers, subject=ACKS)
            )
            agrees_on_ack(
                a_message(with_fields([(name, literal)], "", ACK), given_headers, subject=ACKS)
            )


def test_the_usual_acknowledgement_is_an_ordinary_one() -> None:
    assert agrees_on_ack(an_ack(GOOD_HEADERS))
    assert agrees_on_ack(an_ack(acknowledged_at=STORED_MS, message="busy", request_id="r-1"))
    assert not agrees_on_ack(a_protobuf_ack())
