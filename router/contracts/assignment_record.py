"""An assignment as it stands in `ROUTER_ASSIGNMENTS_KNOWN`: what was decided, for whom, and every byte of what is published.

    {version, subject, headers, content?, assignment}

The bucket's key is `ids.key(assignment_id)`, and nothing else. The assignment id is derived from the request identity,
so the request finds it by being itself, and a result or an acknowledgement finds it by naming it: one key, both ways.
`content` is the digest of the request's content (`contracts.content`): the same identity with other content is found out.

How far it came stands beside it, in the same bucket: the newest acknowledgement under `ack_key(assignment_id)`, which is
the record's own key and `.ack`, as {status, message?, at_ms}. It is written without asking what stood there before:
an acknowledgement decides nothing, people look at it.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from router.contracts.ack import ExecAssignmentAck
from router.contracts.assignment import Assignment, assignment_bytes, assignment_headers, read_assignment
from router.contracts.codec import UNREADABLE_ERRORS
from router.contracts.content import digest
from router.contracts.decision import Decision
from router.contracts.request import RouteRequest
from router.core import ids
from router.core.errors import Poison

RECORD_VERSION = "1"


class AssignmentRecord(Struct, frozen=True, omit_defaults=True):
    """One stored record. `assignment` is kept as the bytes that it was, so that it is published again as it was."""

    version: str
    subject: str
    headers: dict[str, str]
    assignment: msgspec.Raw
    content: str | None = None  # None: an idempotency key stands for the request, whatever its content

    def read_assignment(self) -> Assignment:
        """The assignment in it. Raises Poison when there is none."""
        return read_assignment(bytes(self.assignment))


def build_record(
    assignment_id: str, request: RouteRequest, decision: Decision, *, subject: str, traceparent: str | None, content: str | None
) -> AssignmentRecord:
    """The record of a decision just made."""
    assignment = msgspec.Raw(assignment_bytes(assignment_id, request, decision))
    return AssignmentRecord(RECORD_VERSION, subject, assignment_headers(request, traceparent), assignment, content)


def record_bytes(record: AssignmentRecord) -> bytes:
    """What is stored of a record. `read_record` reads it back."""
    return _encode(record)


def read_record(data: bytes) -> AssignmentRecord:
    """A record that a router stored. Raises Poison when these bytes are none."""
    try:
        return _decode(data)
    except UNREADABLE_ERRORS as exc:
        raise Poison("not a record of an assignment") from exc


def content_of(request: RouteRequest, data: bytes) -> str | None:
    """The digest by which two requests of one identity are compared; None where they are not (an `idempotency_key` was given)."""
    return digest(data) if request.idempotency_key is None else None


class AckState(Struct, frozen=True, omit_defaults=True):
    """What a worker last said of an assignment: `status` as in an ack, `at_ms` milliseconds since the epoch."""

    status: str
    at_ms: int
    message: str | None = None


ACK_MARK = ".ack"  # no record's key holds a dot: `ids.key` escapes it


def ack_key(assignment_id: str) -> str:
    """Where the newest acknowledgement of an assignment stands."""
    return ids.key(assignment_id) + ACK_MARK


def ack_bytes(ack: ExecAssignmentAck) -> bytes:
    """The state that an acknowledgement leaves."""
    return _encode(AckState(ack.status, ack.acknowledged_at, ack.message))


def read_ack_state(data: bytes) -> AckState:
    """The state that `ack_bytes` wrote. Raises Poison when these bytes are none."""
    try:
        return _decode_ack(data)
    except UNREADABLE_ERRORS as exc:
        raise Poison("not the state of an acknowledgement") from exc


_decode = msgspec.json.Decoder(AssignmentRecord).decode
_decode_ack = msgspec.json.Decoder(AckState).decode
_encode = msgspec.json.Encoder().encode
