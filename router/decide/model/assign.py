"""The assignment of a decision: its record for the bucket, and what is published of a record
(docs/reference/contracts.md#assignments).

Both are pure. The assignment is built from the record alone, so it is the same when another process
publishes it again.
"""

from __future__ import annotations

from msgspec import Struct

from router.contracts.assignment import Assignment, assignment_id_of, build_assignment
from router.contracts.assignment_record import AssignmentRecord, build_record, content_of
from router.contracts.decision import Decision
from router.contracts.headers import traceparent_in
from router.contracts.request import RouteRequest
from router.contracts.stored_record import record_bytes
from router.core.message import Effect, Message


class NewAssignment(Struct, frozen=True):
    """The assignment of a decision just made: `data` is its record for the bucket, `known` what its
    results are compared with.
    """

    record: AssignmentRecord
    data: bytes
    known: Assignment


def assignment_id(request: RouteRequest) -> str:
    """The UUID of a request's assignment, and the bucket's key for its record."""
    return assignment_id_of(request.tenant_id, request.request_key)


def build_new_assignment(  # noqa: PLR0917 - once a message
    of: str,
    request: RouteRequest,
    message: Message,
    decision: Decision,
    default_subject: str,
    reservation: str | None = None,
) -> NewAssignment:
    """The assignment with the id `of`; the reader has checked the request's own subject against the
    allow list.
    """
    # the server's clock: the same for each delivery of the request
    requested_at_ms = message.stored_ms
    record = build_record(
        of,
        request,
        decision,
        subject=request.assignment_subject or default_subject,
        traceparent=traceparent_in(message.headers),
        content=content_of(request, message.data),
        requested_at_ms=requested_at_ms,
        reservation=reservation,
    )
    known = build_assignment(of, request, decision, reservation, requested_at_ms=requested_at_ms)
    return NewAssignment(record, record_bytes(record), known)


def build_effect(record: AssignmentRecord, of: str, tenant: str) -> Effect:
    """The stored assignment as the effect that workers receive; `of`, its id, is its Nats-Msg-Id."""
    return Effect(record.subject, bytes(record.assignment), of, record.headers, owner=tenant)


def is_same_request(record: AssignmentRecord, request: RouteRequest, message: Message) -> bool:
    """Whether the record was made from this content; not asked where an `idempotency_key` stands
    for it, on either side.
    """
    content = content_of(request, message.data)
    return content is None or record.content is None or content == record.content
