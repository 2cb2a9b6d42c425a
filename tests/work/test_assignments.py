"""The bounded memory in front of the bucket."""

import pytest

from router.contracts.assignment import Assignment, assignment_id_of
from router.contracts.assignment_record import build_record
from router.contracts.decision import RouteRequest
from router.contracts.raw_json import RawJson
from router.contracts.stored_record import record_bytes
from router.core.deferred import Deferred
from router.core.errors import BrokerUnavailable
from router.work.model import AssignmentCache
from tests.support.workers import ASSIGNED, DECISION, REQUESTED_MS, an_assignment

REQUEST = RouteRequest(
    tenant_id="acme",
    message_type="chat",
    payload=RawJson.encode(1),
    request_key="r-1",
    answer_id="r-1",
    trace_id="t-1",
)


class Bucket:
    def __init__(self, **records: bytes) -> None:
        self.records = records
        self.asked: list[str] = []

    def __call__(self, key: str) -> Deferred[bytes | None]:
        self.asked.append(key)
        found: Deferred[bytes | None] = Deferred()
        found.resolve(self.records.get(key))
        return found


def itself(known: Assignment | None) -> Assignment | None:
    return known


def a_bucket() -> Bucket:
    return Bucket(
        **{
            ASSIGNED: record_bytes(
                build_record(
                    ASSIGNED,
                    REQUEST,
                    DECISION,
                    subject="s",
                    traceparent=None,
                    content=None,
                    requested_at_ms=REQUESTED_MS,
                )
            )
        }
    )


async def test_what_was_looked_up_is_at_hand() -> None:
    bucket = a_bucket()
    memory = AssignmentCache(bucket)
    assert memory.recall(ASSIGNED) is None
    assert await memory.lookup(ASSIGNED, itself) == an_assignment()
    assert memory.recall(ASSIGNED) == an_assignment()
    assert bucket.asked == [ASSIGNED]


async def test_what_is_absent_is_asked_about_again() -> None:
    memory = AssignmentCache(Bucket())
    assert await memory.lookup("unknown", itself) is None
    assert memory.recall("unknown") is None


async def test_an_id_becomes_a_legal_key() -> None:
    bucket = Bucket()
    await AssignmentCache(bucket).lookup("a.b>*", itself)
    assert bucket.asked == ["a=2Eb=3E=2A"]


async def test_a_broken_record_is_an_unknown_assignment() -> None:
    assert await AssignmentCache(Bucket(broken=b"{}")).lookup("broken", itself) is None


async def test_a_bucket_that_is_away_is_heard_of() -> None:
    def away(_: str) -> Deferred[bytes | None]:
        asked: Deferred[bytes | None] = Deferred()
        asked.resolve(BrokerUnavailable("away"))
        return asked

    with pytest.raises(BrokerUnavailable):
        await AssignmentCache(away).lookup(ASSIGNED, itself)


def test_memory_is_bounded_and_the_unused_goes_first() -> None:
    memory = AssignmentCache(Bucket(), limit=2)
    first, second, third = (
        an_assignment(assignment_id=assignment_id_of("acme", str(n))) for n in range(3)
    )
    memory.keep(first)
    memory.keep(second)
    memory.recall(first.assignment_id)
    memory.keep(third)
    assert (len(memory), memory.recall(second.assignment_id)) == (2, None)
    assert memory.recall(first.assignment_id) is first
