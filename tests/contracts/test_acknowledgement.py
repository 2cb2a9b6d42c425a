"""Acknowledgements: JSON or protobuf, three statuses."""

import pytest

from router.contracts.acknowledgement import (
    EXEC_ASSIGNMENT_ACK,
    ExecAssignmentAck,
    read_acknowledgement,
)
from router.contracts.extract import extract_ids
from router.core.message import Message
from router.core.outcome import Fault
from tests.support.requests import GOOD_HEADERS, TRACE, a_message
from tests.support.workers import ASSIGNED, a_protobuf_ack, an_ack


def taken(message: Message) -> ExecAssignmentAck:
    found = read_acknowledgement(message).found
    assert isinstance(found, ExecAssignmentAck), found
    return found


def refused(message: Message) -> Fault:
    found = read_acknowledgement(message).found
    assert isinstance(found, Fault), found
    return found


@pytest.mark.parametrize("status", ["accepted", "rejected", "error"])
def test_both_encodings_are_the_same_ack(status: str) -> None:
    said = {
        "status": status,
        "message": "ok",
        "request_id": "r-1",
        "trace_id": "t-1",
        "tenant_id": "acme",
        "acknowledged_at": 5,
    }
    assert (
        taken(an_ack(**said))
        == taken(a_protobuf_ack(**said))
        == ExecAssignmentAck(assignment_id=ASSIGNED, **said)
    )


def test_id_and_status_are_all_that_is_required() -> None:
    message = an_ack()
    assert taken(message).acknowledged_at == message.stored_ms
    assert refused(an_ack(assignment_id="")).code == "CORRELATION_FIELDS_INVALID"
    assert refused(an_ack(status=None)).message == "Missing required field: status"
    assert refused(an_ack(status="success")).field == "status"


def test_headers_win_over_the_payload() -> None:
    ack = taken(an_ack(GOOD_HEADERS, tenant_id="other"))
    assert (ack.tenant_id, ack.trace_id, ack.msg_id) == ("acme", TRACE, "n-1")


def test_what_cannot_be_decoded_is_refused() -> None:
    assert refused(a_message(b"\xff\xff")).stage == "decode"
    assert refused(an_ack({"version": "3", "Nats-Msg-Id": "n"})).code == "VERSION_UNSUPPORTED"


def test_a_dead_letter_is_told_the_ids_of_protobuf() -> None:
    assert extract_ids(a_protobuf_ack(tenant_id="acme"), EXEC_ASSIGNMENT_ACK) == {
        "assignment_id": ASSIGNED,
        "tenant_id": "acme",
    }
