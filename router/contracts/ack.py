"""Whether a worker takes an assignment: ExecAssignmentAck (docs/reference/contracts.md#acks).

Required: `assignment_id`, and `status` in accepted, rejected, error.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from router.contracts import field_readers
from router.contracts.field_readers import MAX_INT64, Object
from router.contracts.first_stored import first_stored_ms
from router.contracts.malformed import CORRELATION_FIELDS_INVALID, STAGE_CORRELATION, Malformed
from router.contracts.pb.beamline.worker.v1 import ack_pb2
from router.contracts.plain_worker import PlainAck, decode_ack, decode_plain
from router.contracts.worker import (
    DEFAULT_LIMITS,
    MessageType,
    ReadResult,
    WorkerMessageLimits,
    read,
)
from router.core.ids import is_opaque
from router.core.masking import MAX_TEXT, shorten
from router.core.message import Message

ACK_SUBJECT = "caf.exec.assign.v1.ack"
ACCEPTED = "accepted"
REJECTED = "rejected"
ERROR = "error"
ACK_STATUSES = frozenset({ACCEPTED, REJECTED, ERROR})


class ExecAssignmentAck(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A valid acknowledgement, whatever form it came in."""

    assignment_id: str
    status: str  # one of ACK_STATUSES
    # milliseconds since the epoch; the time of its first storing where none was given
    acknowledged_at: int
    message: str | None = None
    request_id: str | None = None
    tenant_id: str | None = None
    trace_id: str | None = None
    msg_id: str | None = None


def read_ack(
    message: Message, limits: WorkerMessageLimits = DEFAULT_LIMITS
) -> ReadResult[ExecAssignmentAck]:
    """One stored message as an acknowledgement, or as the Fault that its dead letter will tell."""
    body = decode_plain(message, limits, decode_ack)
    found = _build_plain(message, body) if body is not None else None
    return ReadResult(found) if found is not None else read_ack_carefully(message, limits)


def read_ack_carefully(
    message: Message, limits: WorkerMessageLimits = DEFAULT_LIMITS
) -> ReadResult[ExecAssignmentAck]:
    """`read_ack` of any message: what is not ordinary, and what is wrong. It is the rule, and takes
    twice as long.
    """
    return read(message, EXEC_ASSIGNMENT_ACK, _ack, limits)


def _build_plain(message: Message, body: PlainAck) -> ExecAssignmentAck | None:
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
        body.status not in ACK_STATUSES
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


def _ack(message: Message, body: Object, _: WorkerMessageLimits) -> ExecAssignmentAck:
    headers = message.headers
    assignment_id = field_readers.read_id(body, "assignment_id")
    if assignment_id is None:
        raise Malformed(
            CORRELATION_FIELDS_INVALID,
            "Missing required field: assignment_id",
            STAGE_CORRELATION,
            "assignment_id",
        )
    return ExecAssignmentAck(
        assignment_id=assignment_id,
        status=field_readers.read_choice(body, "status", ACK_STATUSES),
        # 0 is how protobuf says absent
        acknowledged_at=field_readers.read_whole(body, "acknowledged_at")
        or first_stored_ms(message),
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
