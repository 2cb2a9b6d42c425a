"""The reply subject of a delivery: every field, in both forms that the server writes."""

import pytest

from router.core.message import AckSubject, find_stream, parse_ack_subject

FIELDS = AckSubject("ORDERS", "worker", 2, 10, 12, 1_700_000_000_123_456_789, 5)


@pytest.mark.parametrize(
    "subject",
    [
        "$JS.ACK.ORDERS.worker.2.10.12.1700000000123456789.5",
        "$JS.ACK.hub.ACCOUNT.ORDERS.worker.2.10.12.1700000000123456789.5",
        "$JS.ACK._.ACCOUNT.ORDERS.worker.2.10.12.1700000000123456789.5.aRandomToken",
    ],
)
def test_the_fields_are_read_with_a_domain_and_without(subject: str) -> None:
    assert parse_ack_subject(subject) == FIELDS
    assert subject.split(".")[find_stream(len(subject.split(".")))] == "ORDERS"


@pytest.mark.parametrize(
    "subject", ["", "_INBOX.a.b", "$JS.ACK.ORDERS.worker.x.10.12.1700000000123456789.5"]
)
def test_what_is_no_such_subject_is_an_error(subject: str) -> None:
    with pytest.raises((ValueError, IndexError, TypeError)):
        parse_ack_subject(subject)
