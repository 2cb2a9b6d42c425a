"""The dead letter."""

import base64
import hashlib

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contracts.dead_letter import build_dead_letter
from router.contracts.extract import extract_ids
from router.contracts.malformed import VALIDATION_CODES
from router.core.masking import MASK, MASKED_KEYS
from router.core.outcome import MAXDELIVER_EXHAUSTED, VALIDATION_FAILED, Fault
from tests.support.requests import GOOD_HEADERS, TRACEPARENT, a_body, a_message

FAULT = Fault(
    "SCHEMA_VALIDATION_FAILED", "Missing required field: tenant_id", "message.tenant_id", "schema"
)


def a_letter(message, reason=VALIDATION_FAILED, fault=FAULT, **options):
    options = {
        "node_id": "node-1",
        "now_ms": 42,
        "max_bytes": 1 << 20,
        "seen": extract_ids(message),
        **options,
    }
    return build_dead_letter(message, reason, fault, **options)


def content(message, *args, **options):
    return orjson.loads(a_letter(message, *args, **options).data)


def test_a_dead_letter_says_everything_the_contract_lists() -> None:
    message = a_message(
        {**a_body(message_id="m-1", run_id="run-1"), "request_id": "r-1"},
        GOOD_HEADERS,
        deliveries=4,
        attempts=3,
    )
    assert content(message) == {
        "original_subject": "beamline.router.v1.decide",
        "msg_id": "n-1",
        "reason": "validation_failed",
        "error_code": "VALIDATION_FAILED",
        "timestamp": 42,
        "received_at": 1_700_000_000_123,
        "trace_id": GOOD_HEADERS["trace_id"],
        "tenant_id": "acme",
        "request_id": "r-1",
        "original_payload_hash": hashlib.sha256(message.data).hexdigest(),
        "validation_error": {
            "code": FAULT.code,
            "message": FAULT.message,
            "severity": "error",
            "field": FAULT.field,
        },
        "context": {
            "tenant_id": "acme",
            "run_id": "run-1",
            "trace_id": GOOD_HEADERS["trace_id"],
            "msg_id": "n-1",
            "validation_stage": "schema",
        },
        "source": {
            "stream": "ROUTER_DECIDE",
            "consumer": "router-decide-consumer",
            "sequence": 7,
            "deliveries": 4,
            "attempts": 3,
        },
        "router_node_id": "node-1",
        "message": {
            "id": "n-1",
            "subject": message.subject,
            "headers": GOOD_HEADERS,
            "payload": message.data.decode(),
        },
    }


def test_a_payload_longer_than_allowed_is_left_out_and_described() -> None:
    message = a_message(b"x" * 65_537)
    letter = content(message)
    assert (letter["payload_truncated"], letter["original_payload_bytes"]) == (True, 65_537)
    assert letter["original_payload_hash"] == hashlib.sha256(message.data).hexdigest()
    assert letter["source"]["sequence"] == 7
    assert "payload" not in letter["message"]
    assert content(a_message(b"x" * 65_536))["message"]["payload"] == "x" * 65_536
    assert "payload" not in content(a_message(b"x"), payload_bytes=0)["message"]


@given(
    st.binary(max_size=2000),
    st.dictionaries(st.text(max_size=5), st.text(max_size=40_000), max_size=4),
    st.text(max_size=5000),
)
def test_no_dead_letter_is_longer_than_twice_its_payloads_bound_and_what_stands_beside(
    data: bytes, headers: dict[str, str], why: str
) -> None:
    letter = a_letter(
        a_message(data * 50, headers),
        fault=Fault("internal", why * 3),
        max_bytes=8 << 20,
        payload_bytes=1000,
    )
    assert len(letter.data) <= 2 * 1000 + 32 * 1024


def test_the_dead_letter_is_an_effect_that_is_stored_once_for_each_stored_message() -> None:
    letter = a_letter(a_message(a_body()))
    assert letter.is_dead_letter
    assert letter.subject == "beamline.router.v1.decide.dlq"
    assert letter.id == "dlq:ROUTER_DECIDE:router-decide-consumer:7:1700000000123456789"


def test_headers_carry_reason_ids_and_trace_and_no_header_of_the_server() -> None:
    letter = a_letter(
        a_message(a_body(), {**GOOD_HEADERS, "traceparent": TRACEPARENT, "Nats-Rollup": "all"})
    )
    assert letter.headers == {
        "x-dlq-reason": "validation_failed",
        "x-original-msg-id": "n-1",
        "trace_id": GOOD_HEADERS["trace_id"],
        "tenant_id": "acme",
        "traceparent": TRACEPARENT,
    }


@pytest.mark.parametrize(
    ("pattern", "subject"),
    [("all.dlq", "all.dlq"), ("dead.{original_subject}", "dead.beamline.router.v1.decide")],
)
def test_the_subject_follows_the_pattern(pattern, subject) -> None:
    assert a_letter(a_message(), subject_pattern=pattern).subject == subject


@pytest.mark.parametrize(
    ("headers", "body", "msg_id"),
    [
        ({"Nats-Msg-Id": "n"}, {"message_id": "m"}, "n"),
        ({"Nats-Msg-Id": "n" * 513}, {"message_id": "m"}, "n" * 512),
        ({}, {"message_id": "m"}, "m"),
        ({}, {"msg_id": "m"}, "m"),
        ({}, {"message": {"message_id": "m"}}, "m"),
        ({}, {}, "ROUTER_DECIDE:7"),
    ],
)
def test_the_message_id_is_the_header_else_the_payload_else_the_place(
    headers, body, msg_id
) -> None:
    assert content(a_message(body, headers))["msg_id"] == msg_id


def test_a_failure_that_is_no_validation_is_the_last_error() -> None:
    letter = content(a_message(a_body()), MAXDELIVER_EXHAUSTED, Fault("broker_unavailable", "away"))
    assert letter["last_error"] == {"code": "broker_unavailable", "message": "away"}
    assert "validation_error" not in letter
    assert letter["error_code"] == "MAXDELIVER_EXHAUSTED"


def test_a_validation_error_never_has_a_code_outside_the_list() -> None:
    assert (
        content(a_message(), fault=Fault("surprise", "x"))["validation_error"]["code"]
        in VALIDATION_CODES
    )


def test_bytes_that_are_no_text_travel_as_base64() -> None:
    letter = content(a_message(b"\xff\x00"))
    assert letter["message"]["payload_encoding"] == "base64"
    assert base64.b64decode(letter["message"]["payload"]) == b"\xff\x00"


def test_the_message_can_be_kept_out() -> None:
    assert "message" not in content(a_message(a_body()), include_message=False)


def test_a_dead_letter_too_large_leaves_the_payload_out_and_says_so() -> None:
    letter = content(a_message(b"x" * 5000, {"k": "v"}), max_bytes=4000)
    assert letter["payload_truncated"] is True
    assert letter["message"] == {
        "id": "ROUTER_DECIDE:7",
        "subject": "beamline.router.v1.decide",
        "headers": {"k": "v"},
    }


def test_headers_too_large_leave_the_message_out() -> None:
    letter = a_letter(
        a_message(b"x", {"k": "\x00" * 3000, "Nats-Msg-Id": "y" * 9000}), max_bytes=6000
    )
    assert "message" not in orjson.loads(letter.data)
    assert (
        len(letter.data) + sum(len(name) + len(value) + 4 for name, value in letter.headers.items())
        < 6000
    )


@pytest.mark.parametrize(("size", "last"), [(1000, "payload"), (1001, "headers")])
def test_what_just_fits_is_kept_and_one_byte_more_is_left_out(size: int, last: str) -> None:
    def write(header: str) -> bytes:
        message = a_message(b"x" * size, {"k": header})
        return a_letter(message, payload_bytes=1000, max_bytes=8 << 20).data

    room = 2 * 1000 + 32 * 1024 - len(write(""))
    for more, is_kept in ((0, True), (1, False)):
        kept = orjson.loads(write("v" * (room + more))).get("message", {})
        assert (last in kept) == is_kept


@pytest.mark.parametrize(
    "key", sorted(MASKED_KEYS | {key.replace("_", "-") for key in MASKED_KEYS})
)
def test_a_secret_in_a_header_is_masked(key) -> None:
    letter = a_letter(a_message(a_body(), {key.upper(): "hunter2"}))
    assert b"hunter2" not in letter.data
    assert orjson.loads(letter.data)["message"]["headers"] == {key.upper(): MASK}


header_text = st.text(max_size=30)  # surrogates are what a header that is no UTF-8 leaves behind
odd_text = header_text | st.text(st.characters(categories=["Cs", "Cc", "Lo"]), max_size=30)


@given(
    st.binary(max_size=200),
    st.dictionaries(
        st.sampled_from([*GOOD_HEADERS, "traceparent", "x"]) | odd_text, odd_text, max_size=6
    ),
)
def test_whatever_was_sent_a_dead_letter_can_be_written(data, headers) -> None:
    letter = a_letter(a_message(data, headers))
    body = orjson.loads(letter.data)
    original = body["message"]
    payload = original["payload"]
    assert (
        base64.b64decode(payload) if "payload_encoding" in original else payload.encode()
    ) == data
    assert all(value.isascii() and value.isprintable() for value in letter.headers.values())
