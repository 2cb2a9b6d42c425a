"""Bytes that another program wrote into a bucket or a stream are told as such, whatever they are."""

from collections.abc import Callable

import pytest

from router.budgets.model.spent_record import read_booking_record, read_spent_record
from router.contracts.assignment_record import read_record, read_stored_acknowledgement
from router.contracts.malformed import Malformed
from router.core.errors import Poison
from router.decide.partitions.partition_lease import read_lease
from router.operate.audit.audit_event import read_audit_event
from router.operate.violations.events import read_violation
from router.policies.model.rate_limits import read_rate_record
from router.work.model import invocation_record

FOREIGN = {
    "no JSON": b"\xff",
    "a list": b"[]",
    "no text": (
        b'{"node_id":"\xff","id":"\xff","tenant_id":"\xff","subject":"\xff",'
        b'"status":"\xff","life":"\xff","timeline":"\xff","full_at_ns":"\xff"}'
    ),
    "no number": b'{"settled":"a","full_at_ns":-1,"life":7}',
    "deep": b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}
RECORDS = {
    "assignment": read_record,
    "ack": read_stored_acknowledgement,
    "invocation": invocation_record.read_record,
    "rate": read_rate_record,
    "settlement": read_booking_record,
    "spent": read_spent_record,
}
EVENTS = {"audit": read_audit_event, "violation": read_violation}


@pytest.mark.parametrize("data", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("read", RECORDS.values(), ids=RECORDS)
def test_a_foreign_record_is_poison(read: Callable[[bytes], object], data: bytes) -> None:
    with pytest.raises(Poison):
        read(data)


@pytest.mark.parametrize("data", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("read", EVENTS.values(), ids=EVENTS)
def test_a_foreign_event_is_malformed(read: Callable[[bytes], object], data: bytes) -> None:
    with pytest.raises(Malformed):
        read(data)


@pytest.mark.parametrize("data", FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_lease_names_no_holder(data: bytes) -> None:
    assert read_lease(data) is None
