"""Whether a worker takes an assignment: ExecAssignmentAck (docs/contracts.md#acks).

Required: `assignment_id`, and `status` in accepted, rejected, error.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from router.contracts import field_readers
from router.contracts.field_readers import Object
from router.contracts.first_stored import first_stored_ms
from router.contracts.malformed import CORRELATION_FIELDS_INVALID, STAGE_CORRELATION, Malformed
from router.contracts.pb.beamline.worker.v1 import ack_pb2
from router.contracts.worker import DEFAULT_LIMITS, MessageType, ReadResult, WorkerMessageLimits, read
from router.core.message import Message

ACK_SUBJECT = "caf.exec.assign.v1.ack"
ACCEPTED = "accepted"
REJECTED = "rejected"
ERROR = "error"
ACK_STATUSES = frozenset({ACCEPTED, REJECTED, ERROR})


class ExecAssignmentAck(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A valid acknowledgement, whatever form it came in."""

    assignment_id: str
    status: str  # one of STATUSES
    acknowledged_at: int  # milliseconds since the epoch; the time of its first storing where none was given
    message: str | None = None
    request_id: str | None = None
    tenant_id: str | None = None
    trace_id: str | None = None
    msg_id: str | None = None


def read_ack(message: Message, limits: WorkerMessageLimits = DEFAULT_LIMITS) -> ReadResult[ExecAssignmentAck]:
    """One stored message as an acknowledgement, or as the Fault that its dead letter will tell."""
    return read(message, EXEC_ASSIGNMENT_ACK, _ack, limits)


def _ack(message: Message, body: Object, _: WorkerMessageLimits) -> ExecAssignmentAck:
    headers = message.headers
    assignment_id = field_readers.read_id(body, "assignment_id")
    if assignment_id is None:
        raise Malformed(CORRELATION_FIELDS_INVALID, "Missing required field: assignment_id", STAGE_CORRELATION, "assignment_id")
    return ExecAssignmentAck(
        assignment_id=assignment_id,
        status=field_readers.read_choice(body, "status", ACK_STATUSES),
        acknowledged_at=field_readers.read_whole(body, "acknowledged_at") or first_stored_ms(message),  # 0 is how protobuf says absent
        message=field_readers.read_excerpt(body, "message"),
        request_id=field_readers.read_id(body, "request_id"),
        tenant_id=field_readers.read_tenant(headers, body),
        trace_id=field_readers.read_trace(headers, body),
        msg_id=field_readers.read_message_id(headers, body),
    )


def _from_protobuf(data: bytes) -> dict[str, Any]:
    sent = ack_pb2.ExecAssignmentAck.FromString(data)
    return {
        "assignment_id": sent.assignment_id,
        "status": sent.status,
        "message": sent.message,
        "request_id": sent.request_id,
        "trace_id": sent.trace_id,
        "tenant_id": sent.tenant_id,
        "acknowledged_at": sent.acknowledged_at,
    }


EXEC_ASSIGNMENT_ACK = MessageType("exec_assignment_ack", ("assignment_id",), _from_protobuf)
