"""The record of an assignment in the bucket `ROUTER_ASSIGNMENTS_KNOWN`, with the newest ack of a
worker and its invocation.

    key                             value
    {assignment id}                 {version, subject, headers, requested_at_ms, content?,
                                    reservation?, listed_cost?, assignment}
                                    written once, as decided
    {assignment id}.ack             {status, message?, at_ms}
                                    overwritten by each ack of a worker
    {assignment id}.invoked         the attempt of an invocation that is its bill, or that there is
                                    none any more
    {assignment id}.reported        stands once its worker has reported, where its provider can be
                                    invoked
    {tenant}.{provider}.unmarked    reports of assignments requested until then, in milliseconds,
                                    may have no such mark

The assignment id is derived from the request identity. So a repeated request finds the record by
its own identity, and a result or an ack finds it by the assignment id that it names. `content` is
the digest of the request's content (`contracts.content`): with it the router detects a request that
has the same identity and other content. The record holds each byte that is published, so that
another process publishes the same. No decision reads an ack: it is for operators (`router
assignments`).
"""

from __future__ import annotations

from math import inf

import msgspec
from msgspec import Struct

from router.contracts.acknowledgement import ExecAssignmentAck
from router.contracts.assignment import (
    Assignment,
    assignment_bytes,
    assignment_headers,
    read_assignment,
)
from router.contracts.content import digest
from router.contracts.decision import Decision, RouteRequest
from router.contracts.stored_record import RecordKind, record_bytes
from router.core import ids

RECORD_VERSION = "1"
_DIGITS = 16  # of a time in milliseconds


class AssignmentRecord(Struct, frozen=True, omit_defaults=True):
    """One stored record. `assignment` holds the bytes that were published first, so that a
    repetition publishes the same bytes.
    """

    version: str
    subject: str
    headers: dict[str, str]
    assignment: msgspec.Raw
    requested_at_ms: int  # when the stream stored the request: no work was done before it
    # None: an idempotency key stands for the request, whatever its content
    content: str | None = None
    reservation: str | None = None  # in its tenant's budgets (`budgets.model.reservation`)
    # what the policy expected: the bound of what its result may cost follows from it
    listed_cost: float | None = None

    def read_assignment(self) -> Assignment:
        """Parse the assignment. Raises Poison if its bytes are no assignment."""
        beside = self.reservation, self.listed_cost
        return read_assignment(
            bytes(self.assignment), *beside, requested_at_ms=self.requested_at_ms
        )


def build_record(
    assignment_id: str,
    request: RouteRequest,
    decision: Decision,
    *,
    subject: str,
    traceparent: str | None,
    content: str | None,
    requested_at_ms: int,
    reservation: str | None = None,
) -> AssignmentRecord:
    """Build the record of a new decision."""
    assignment = msgspec.Raw(assignment_bytes(assignment_id, request, decision))
    headers = assignment_headers(request, traceparent)
    kept = content, reservation, decision.listed_cost
    return AssignmentRecord(RECORD_VERSION, subject, headers, assignment, requested_at_ms, *kept)


read_record = RecordKind(AssignmentRecord, "a record of an assignment").read


def content_of(request: RouteRequest, data: bytes) -> str | None:
    """The digest that tells two requests of one identity apart; None with an `idempotency_key`,
    which stands for any content.
    """
    return digest(data) if request.idempotency_key is None else None


class AssignmentAcknowledgement(Struct, frozen=True, omit_defaults=True):
    """A worker's newest ack of an assignment. `status` as in `ExecAssignmentAck`, `at_ms`:
    milliseconds since the epoch.
    """

    status: str
    at_ms: int
    message: str | None = None


ACKNOWLEDGEMENT_SUFFIX = ".ack"  # no key of a record holds a dot, because `ids.key` escapes it


def acknowledgement_key(assignment_id: str) -> str:
    """The bucket's key of the newest ack of an assignment."""
    return ids.key(assignment_id) + ACKNOWLEDGEMENT_SUFFIX


INVOKED_SUFFIX = ".invoked"
REPORTED_SUFFIX = ".reported"


def invoked_key(assignment_id: str) -> str:
    """The bucket's key of the attempt that is the assignment's bill: {tenant}.{attempt id}
    (`work.model.invocation_record`).
    """
    return ids.key(assignment_id) + INVOKED_SUFFIX


def reported_key(assignment_id: str) -> str:
    """The bucket's key that stands once the assignment's worker has reported, whatever becomes of
    its invocations.
    """
    return ids.key(assignment_id) + REPORTED_SUFFIX


UNMARKED_SUFFIX = ".unmarked"
OF_INVOCATIONS = (INVOKED_SUFFIX, REPORTED_SUFFIX, UNMARKED_SUFFIX)  # keys that hold text


def unmarked_key(tenant_id: str, provider_id: str) -> str:
    """The bucket's key of the note that a tenant's reports from a provider had no marks, for it
    could not be invoked.
    """
    return ids.key(tenant_id, provider_id) + UNMARKED_SUFFIX


def read_unmarked(note: bytes) -> float:
    """Until when, by the time of requests; without end where the bytes say nothing: then no report
    is taken for marked.
    """
    return int(note) if note.isdigit() and len(note) <= _DIGITS else inf


def write_acknowledgement(acknowledgement: ExecAssignmentAck) -> bytes:
    """Encode what the bucket keeps of an ack."""
    return record_bytes(
        AssignmentAcknowledgement(
            acknowledgement.status, acknowledgement.acknowledged_at, acknowledgement.message
        )
    )


read_stored_acknowledgement = RecordKind(AssignmentAcknowledgement, "the ack of an assignment").read
