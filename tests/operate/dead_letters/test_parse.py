"""Whatever stands in the dead letters' stream can be shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.operate.dead_letters import DeadLetterSource, parse
from tests.support.dead_letters import a_dead_letter, a_failed_message, a_stored_dead_letter


def test_a_dead_letter_of_ours_is_read_back_whole() -> None:
    letter = parse(
        a_dead_letter(
            a_failed_message(b'{"a":1}', headers={"Nats-Msg-Id": "m-1"}),
            seen={"tenant_id": "acme", "trace_id": "t-1"},
        )
    )
    assert (letter.original_subject, letter.reason, letter.msg_id) == (
        "beamline.router.v1.decide",
        "validation_failed",
        "m-1",
    )
    assert (letter.code, letter.field, letter.stage) == (
        "SCHEMA_VALIDATION_FAILED",
        "message.tenant_id",
        "schema",
    )
    assert (letter.tenant_id, letter.trace_id) == ("acme", "t-1")
    assert letter.source == DeadLetterSource("ROUTER_DECIDE", "c", 7, 3, 2)
    assert (letter.payload, letter.headers) == (b'{"a":1}', {"Nats-Msg-Id": "m-1"})
    assert letter.stored is not None


def test_a_payload_that_was_no_text_comes_back_as_its_bytes() -> None:
    assert parse(a_dead_letter(a_failed_message(b"\x00\xff\xfe"))).payload == b"\x00\xff\xfe"


def test_a_dead_letter_without_its_message_says_why() -> None:
    letter = parse(a_dead_letter(a_failed_message(b"x" * 5000), max_bytes=2000))
    assert letter.payload is None
    assert "too large" in str(letter.payload_note)


def test_a_failed_attempt_has_its_last_error() -> None:
    assert (
        parse(a_dead_letter(reason="maxdeliver_exhausted")).message
        == "Missing required field: tenant_id"
    )


def test_a_worker_s_result_is_a_processing_error() -> None:
    letter = parse(
        a_stored_dead_letter(
            {"tenant_id": "acme", "error_code": "OOM", "request_id": "r"}, "caf.exec.dlq.v1"
        )
    )
    assert (letter.reason, letter.code, letter.tenant_id, letter.request_id) == (
        "processing_error",
        "OOM",
        "acme",
        "r",
    )


@pytest.mark.parametrize(
    "data",
    [{"reason": "PARSE_ERROR", "payload_ref": {"subject": "caf.exec.assign.v1", "len": 3}}, {}],
)
@pytest.mark.parametrize("is_wrapped", [True, False])
def test_what_a_worker_could_not_read_is_a_processing_error(
    data: dict[str, object], is_wrapped: bool
) -> None:
    letter = parse(
        a_stored_dead_letter(
            {"version": "v1", "kind": "dead_letter", "data": data} if is_wrapped else data,
            "caf.deadletter.v1",
        )
    )
    assert (letter.reason, letter.original_subject) == ("processing_error", "caf.deadletter.v1")
    assert (letter.code, letter.message) == (
        ("PARSE_ERROR", "a worker could not read a message on caf.exec.assign.v1")
        if data
        else (None, None)
    )


@pytest.mark.parametrize(
    "data", [b"", b"\xff\x00", b"[]", b"null", b"{", b"{}", b'{"reason": 3}', b'"text"']
)
def test_what_is_no_dead_letter_is_unreadable_and_shows_its_own_bytes(data: bytes) -> None:
    letter = parse(a_stored_dead_letter(data, trace_id="t"))
    assert (letter.reason, letter.payload, letter.original_subject) == (
        "unreadable",
        data,
        "beamline.router.v1.decide",
    )
    assert letter.trace_id == "t"


def test_what_is_no_dead_letter_is_told_by_its_headers() -> None:
    assert (
        parse(a_stored_dead_letter(b"?", **{"x-dlq-reason": "validation_failed"})).reason
        == "validation_failed"
    )


def test_fields_of_another_kind_count_as_absent() -> None:
    odd = {
        "reason": "r",
        "validation_error": 7,
        "context": [],
        "source": {"sequence": "x"},
        "message": {"headers": 1, "payload": 5},
    }
    letter = parse(a_stored_dead_letter(odd))
    assert (letter.code, letter.stage, letter.headers, letter.payload) == (None, None, {}, None)


def test_a_payload_whose_encoding_lies_is_shown_as_it_stands() -> None:
    letter = parse(
        a_stored_dead_letter(
            {"reason": "r", "message": {"payload": "no base64!", "payload_encoding": "base64"}}
        )
    )
    assert letter.payload == b"no base64!"
    assert letter.payload_note is not None


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)
_NAMES = st.sampled_from(
    [
        "reason",
        "message",
        "source",
        "context",
        "validation_error",
        "last_error",
        "payload_truncated",
        "msg_id",
    ]
)
_PARTS = st.dictionaries(
    st.sampled_from(["payload", "payload_encoding", "headers", "sequence", "starts", "code"]),
    _JSON,
    max_size=4,
)


@given(st.dictionaries(_NAMES, _JSON | _PARTS, max_size=6))
def test_nothing_that_is_stored_there_raises(body: dict[str, object]) -> None:
    parse(a_stored_dead_letter(body))
