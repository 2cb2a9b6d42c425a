"""Whether a worker takes an assignment: ExecAssignmentAck (docs/reference/contracts.md#acks)."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from router.contracts import field_kinds as kind
from router.contracts import field_readers
from router.contracts.field_readers import MAX_INT64
from router.contracts.headers import first_stored_ms
from router.contracts.message_spec import Field, MessageSpec, build_reader, build_wire
from router.contracts.pb.beamline.worker.v1 import ack_pb2
from router.contracts.shapes.parts import refer
from router.contracts.worker import (
    DEFAULT_LIMITS,
    PlainBody,
    ReadResult,
    Received,
    WorkerMessageLimits,
    decode_plain,
    read,
)
from router.core.ids import is_opaque
from router.core.masking import MAX_TEXT, shorten
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
        Field("acknowledged_at", kind.FieldKind(refer("rounded"), _read_time), _SINCE),
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


def read_acknowledgement(
    message: Message, limits: WorkerMessageLimits = DEFAULT_LIMITS
) -> ReadResult[ExecAssignmentAck]:
    """One stored message as an acknowledgement, or as the Fault that its dead letter will tell."""
    body = decode_plain(message, limits, decode_acknowledgement)
    found = _build_plain(message, body) if body is not None else None
    return (
        ReadResult(found) if found is not None else read_acknowledgement_carefully(message, limits)
    )


def read_acknowledgement_carefully(
    message: Message, limits: WorkerMessageLimits = DEFAULT_LIMITS
) -> ReadResult[ExecAssignmentAck]:
    """`read_acknowledgement` of any message: what is not ordinary, and what is wrong. It is the rule, and takes
    twice as long.
    """
    return read(message, EXEC_ASSIGNMENT_ACK, _read, limits)


class PlainAcknowledgement(PlainBody, forbid_unknown_fields=True, kw_only=True, gc=False):
    """An ordinary acknowledgement."""

    status: str
    acknowledged_at: int | None = None
    message: str | None = None


decode_acknowledgement = msgspec.json.Decoder(PlainAcknowledgement).decode


def _build_plain(message: Message, body: PlainAcknowledgement) -> ExecAssignmentAck | None:
    """The acknowledgement; None where a value is not as it usually is. Of a header that is there
    the contract was checked: it holds.
    """
    headers, assignment_id, request_id = (
        message.headers,
        body.assignment_id,
        body.request_id or None,
    )
    tenant_id, trace_id, message_id = (
        headers.get("tenant_id"),
        headers.get("trace_id"),
        headers.get("Nats-Msg-Id"),
    )
    acknowledged_at = body.acknowledged_at or first_stored_ms(message)
    if (
        body.status not in ACKNOWLEDGEMENT_STATUSES
        or not 0 <= acknowledged_at <= MAX_INT64
        or not assignment_id
        or not is_opaque(assignment_id)
        or not (request_id is None or is_opaque(request_id))
        or body.msg_id
        # With a tenant's header the contract was asked about the id too.
        or not (message_id is None or tenant_id is not None or is_opaque(message_id))
    ):
        return None
    if (
        tenant_id is None
        and (tenant_id := body.tenant_id or None) is not None
        and not field_readers.is_scoped(tenant_id)
    ):
        return None
    if (
        trace_id is None
        and (trace_id := body.trace_id or None) is not None
        and not is_opaque(trace_id)
    ):
        return None
    return ExecAssignmentAck(
        assignment_id=assignment_id,
        status=body.status,
        acknowledged_at=acknowledged_at,
        message=shorten(body.message, MAX_TEXT) if body.message else None,
        request_id=request_id,
        tenant_id=tenant_id,
        trace_id=trace_id,
        msg_id=message_id,
    )
