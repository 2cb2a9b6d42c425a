"""The bucket of known assignments as people look at it, on a real server."""

from collections.abc import AsyncIterator

import pytest

from router.contracts.acknowledgement import ExecAssignmentAck
from router.contracts.assignment import assignment_id_of
from router.contracts.assignment_record import (
    acknowledgement_key,
    build_record,
    reported_key,
    unmarked_key,
    write_acknowledgement,
)
from router.contracts.decision import Decision, RouteRequest
from router.contracts.stored_record import record_bytes
from router.core.ids import key
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import Topology, bucket, create
from router.work.assignments import UNACKNOWLEDGED, find_assignment, list_assignments
from tests.support.delivery import connected

DECISION = Decision(
    "openai", "weighted", 50, 800, 0.01, {"policy_id": "default", "policy_version": "1"}
)


class Book:
    """A bucket of assignments, written by hand."""

    def __init__(self, jetstream: JetStream, name: str) -> None:
        self.jetstream = jetstream
        self.name = name

    async def push(self, name: str, tenant: str = "acme") -> str:
        request = RouteRequest(
            tenant_id=tenant, message_type="chat", request_key=name, answer_id=name
        )
        assignment_id = assignment_id_of(tenant, name)
        record = record_bytes(
            build_record(
                assignment_id,
                request,
                DECISION,
                subject="caf.exec.assign.v1",
                traceparent=None,
                content=None,
                requested_at_ms=0,
            )
        )
        await self.put(key(assignment_id), record)
        return assignment_id

    async def acknowledge(
        self, assignment_id: str, status: str, message: str | None = None
    ) -> None:
        ack = ExecAssignmentAck(
            assignment_id=assignment_id,
            status=status,
            acknowledged_at=1_700_000_000_000,
            message=message,
        )
        await self.put(acknowledgement_key(assignment_id), write_acknowledgement(ack))

    async def put(self, at: str, data: bytes) -> None:
        await self.jetstream.connection.jetstream(timeout=60).publish(f"$KV.{self.name}.{at}", data)

    async def listed(self, **wanted: object) -> list[tuple[str, str]]:
        found = list_assignments(self.jetstream, self.name, **wanted)  # type: ignore[arg-type]
        return [(one.assignment.request_id, one.status) async for one in found]


@pytest.fixture
async def book(nats_url: str, prefix: str) -> AsyncIterator[Book]:
    async with connected(nats_url) as connection:
        book = Book(JetStream(connection), f"{prefix}_KNOWN".upper())
        await create(book.jetstream, Topology((bucket(book.name),)))
        yield book


async def test_the_newest_acknowledgement_is_the_status(book: Book) -> None:
    first, second = await book.push("r-1"), await book.push("r-2")
    await book.acknowledge(first, "accepted")
    await book.acknowledge(first, "rejected", "no model")
    assert await book.listed() == [("r-2", UNACKNOWLEDGED), ("r-1", "rejected")]
    found = await find_assignment(book.jetstream, book.name, first)
    assert found is not None
    assert found.acknowledgement is not None
    assert (
        found.acknowledgement.status,
        found.acknowledgement.message,
        found.acknowledgement.at_ms,
    ) == (
        "rejected",
        "no model",
        1_700_000_000_000,
    )
    assert (await find_assignment(book.jetstream, book.name, second)).status == UNACKNOWLEDGED  # type: ignore[union-attr]


async def test_tenant_status_and_limit_choose(book: Book) -> None:
    for name in range(200):  # more than are asked for at once
        assignment_id = await book.push(f"r-{name}", "acme" if name % 2 else "globex")
        if name % 4 == 1:
            await book.acknowledge(assignment_id, "accepted")
    assert len(await book.listed(limit=500)) == 200
    chosen = await book.listed(tenant="acme", status="accepted", limit=3)
    assert chosen == [("r-197", "accepted"), ("r-193", "accepted"), ("r-189", "accepted")]


async def test_what_is_no_record_is_passed_over(book: Book) -> None:
    assignment_id = await book.push("r-1")
    await book.put("odd", b"\xff")
    await book.put(acknowledgement_key(assignment_id), b"[]")
    await book.put(reported_key(assignment_id), b"reported")
    await book.put(unmarked_key("acme", "openai"), b"1700000000000")
    assert await book.listed() == [("r-1", UNACKNOWLEDGED)]


async def test_without_a_bucket_there_is_nothing(nats_url: str) -> None:
    async with connected(nats_url) as connection:
        book = Book(JetStream(connection), "NOT_THERE")
        assert await book.listed() == []
        assert await find_assignment(book.jetstream, book.name, "a-1") is None
