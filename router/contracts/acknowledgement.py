"""Whether a worker takes an assignment: ExecAssignmentAck (docs/reference/contracts.md#acks)."""

from __future__ import annotations

from msgspec import Struct

from router.contracts import field_kinds as kind
from router.contracts import field_readers
from router.contracts.field_readers import MAX_INT64
from router.contracts.message_spec import Field, MessageSpec, build_plain, build_reader, build_wire
from router.contracts.pb.beamline.worker.v1 import ack_pb2
from router.contracts.shapes.parts import refer
from router.contracts.worker import DEFAULT_LIMITS, ReadResult, Received, WorkerMessageLimits, read
from router.core.message import Message

ACKNOWLEDGEMENT_SUBJECT = "caf.exec.assign.v1.ack"
ACCEPTED = "accepted"
REJECTED = "rejected"
ERROR = "error"
ACKNOWLEDGEMENT_STATUSES = frozenset({ACCEPTED, REJECTED, ERROR})


class ExecAssignmentAck(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A valid acknowledgement, whatever form it came in."""

    assignment_id: str
    status: str  # one of ACKNOWLEDGEMENT_STATUSES
    # milliseconds since the epoch; the time of its first storing where none was given
    acknowledged_at: int
    message: str | None = None
    request_id: str | None = None
    tenant_id: str | None = None
    trace_id: str | None = None
    msg_id: str | None = None


def _read_time(sent: Received, name: str) -> int:
    """0 is how protobuf says absent."""
    return field_readers.read_whole(sent.body, name) or sent.first_ms


_PLAIN_TIME = kind.PlainForm(
    type=int,
    value="body.$ or first_stored_ms(message)",
    is_usual=f"0 <= $ <= {MAX_INT64}",
    is_filled=True,
)
_TIME = kind.FieldKind(refer("rounded"), _read_time, plain=_PLAIN_TIME)
_SINCE = "milliseconds since the epoch; the time of its storing if absent"
_ASSIGNMENT_ID = "0a4f0b52-3df5-5a1c-9d1e-2b8f3a3f6f10"
_REFUSED = {"assignment_id": _ASSIGNMENT_ID, "status": ERROR, "message": "not an image"}
ACKNOWLEDGEMENT_SPEC = MessageSpec(
    name="ack",
    title="ExecAssignmentAck",
    text="Whether a worker takes an assignment.",
    page="docs/reference/contracts.md#acks",
    made=ExecAssignmentAck,
    fields=(
        Field("assignment_id", kind.ID, is_required=True),
        Field("status", kind.build_choice(ACKNOWLEDGEMENT_STATUSES), is_required=True),
        Field("request_id", kind.OPTIONAL_ID),
        Field("acknowledged_at", _TIME, _SINCE),
        Field("message", kind.EXCERPT, "words for operators"),
    ),
    envelope="exec_assignment_ack",
    proto=ack_pb2.ExecAssignmentAck,
    ids=("assignment_id",),
    examples=(
        {
            "version": "1",
            "assignment_id": _ASSIGNMENT_ID,
            "status": ACCEPTED,
            "tenant_id": "acme",
            "request_id": "r-1",
        },
        {"assignment_id": _ASSIGNMENT_ID, "status": REJECTED, "message": "the queue is full"},
        {"version": "1", "kind": "exec_assignment_ack", "data": _REFUSED},
    ),
)
EXEC_ASSIGNMENT_ACK = build_wire(ACKNOWLEDGEMENT_SPEC)
_read = build_reader(ACKNOWLEDGEMENT_SPEC)
read_plain_acknowledgement = build_plain(ACKNOWLEDGEMENT_SPEC)


def read_acknowledgement(
    message: Message, limits: WorkerMessageLimits = DEFAULT_LIMITS
) -> ReadResult[ExecAssignmentAck]:
    """One stored message as an acknowledgement, or as the Fault that its dead letter will tell."""
    plain = read_plain_acknowledgement(message, limits)
    return (
        ReadResult(plain) if plain is not None else read_acknowledgement_carefully(message, limits)
    )


def read_acknowledgement_carefully(
    message: Message, limits: WorkerMessageLimits = DEFAULT_LIMITS
) -> ReadResult[ExecAssignmentAck]:
    """`read_acknowledgement` of any message: what is not ordinary, and what is wrong. It is the rule, and takes
    twice as long.
    """
    return read(message, EXEC_ASSIGNMENT_ACK, _read, limits)
