"""What a worker says of an assignment, as bytes with their headers: acknowledgement, result, and
the result that gives it up.

    ack       docs/reference/contracts.md#acks
    result    docs/reference/contracts.md#results; its message id comes from the assignment's, so
              that told twice it is stored once
    dead letter    docs/reference/contracts.md#workers-dead-letters: an ExecResult in JSON, `status:
                   error`, and the root cause; of
                   bytes that are no assignment an UnreadReport, for a result of them would lack
                   most of its fields

Nothing is published here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import orjson
from msgspec.structs import replace

from router.contracts import headers as contract
from router.contracts.acknowledgement import ExecAssignmentAck
from router.contracts.codec import text_of
from router.contracts.dead_letter import MAX_MESSAGE_TEXT
from router.contracts.exec_assignment import ExecAssignment
from router.contracts.pb.beamline.worker.v1 import ack_pb2, result_pb2
from router.contracts.raw_json import write_payload
from router.contracts.unread_report import UNREAD_KIND
from router.core.clock import format_moment
from router.core.masking import shorten
from router.core.message import Effect, Message
from router.core.outcome import Fault
from router.delivery.publish.encoded_headers import EncodedHeaders
from router.sdk.attempts import AttemptsResult
from router.sdk.step import RESULT_STATUS, add_step_fields

JSON_ENCODING = "json"
PROTOBUF_ENCODING = "protobuf"
ENCODINGS = (JSON_ENCODING, PROTOBUF_ENCODING)


def acknowledgement_bytes(acknowledgement: ExecAssignmentAck, encoding: str) -> bytes:
    """An acknowledgement on the wire."""
    if encoding == JSON_ENCODING:
        return _encode(acknowledgement)
    return ack_pb2.ExecAssignmentAck(**msgspec.to_builtins(acknowledgement)).SerializeToString()


def result_bytes(
    assignment: ExecAssignment,
    done: AttemptsResult,
    *,
    worker_id: str,
    now_ms: int,
    encoding: str = JSON_ENCODING,
) -> bytes:
    """A result on the wire. Raises TypeError or ValueError for an output or metadata that JSON
    cannot hold.
    """
    body = _result(assignment, done, worker_id, now_ms)
    if encoding != JSON_ENCODING:
        return _protobuf(body)
    _add_payload(body, done.step.output)
    return write_payload(body)


def result_effect(
    subject: str, data: bytes, assignment: ExecAssignment, headers: EncodedHeaders
) -> Effect:
    """A result, which the stream stores once, however often its assignment is delivered."""
    return Effect(subject, data, f"result:{assignment.assignment_id}", headers)


def dead_letter_effect(
    subject: str, data: bytes, message: Message, headers: Mapping[str, str]
) -> Effect:
    """A result that gives its assignment up: once for each message, so an assignment that is
    replayed may fail again.
    """
    dead_letter_id = (
        f"dlq:{message.stream}:{message.consumer}:{message.sequence}:{message.stored_ns}"
    )
    return Effect(subject, data, dead_letter_id, headers, is_dead_letter=True)


def cut_to_dead_letter(done: AttemptsResult) -> AttemptsResult:
    """The part of a result that a dead letter keeps: why it was given up, cut to a length; no
    output, which only a result has.
    """
    step = done.step
    message = step.error_message[:MAX_MESSAGE_TEXT] if step.error_message is not None else None
    return replace(done, step=replace(step, output=None, error_message=message))


def unstarted_bytes(assignment: ExecAssignment, fault: Fault, *, code: str, now_ms: int) -> bytes:
    """The dead letter of an assignment without a handler's answer: accepted by no worker, or one
    that killed its worker.
    """
    why = {"error_code": code, "error_message": shorten(fault.message)}
    return orjson.dumps(
        {
            **_correlation_of(assignment),
            "status": "error",
            "latency_ms": 0,
            "cost": 0.0,
            **why,
            "timestamp": now_ms,
        }
    )


def unread_bytes(message: Message, fault: Fault, *, code: str, now_ms: int) -> bytes:
    """The report of bytes that are no assignment. The message id is the assignment's id, and a
    header names the tenant.
    """
    fields = {
        "assignment_id": contract.message_id_in(message.headers),
        "tenant_id": contract.tenant_in(message.headers),
    }
    report = {
        "reason": code,
        "message": shorten(fault.message),
        "payload_ref": {"subject": message.subject, "len": len(message.data)},
        "ts": format_moment(now_ms),
        **{name: value for name, value in fields.items() if value is not None},
    }
    return orjson.dumps({"version": "1", "kind": UNREAD_KIND, "data": report})


def build_headers(assignment: ExecAssignment, message: Message) -> EncodedHeaders:
    """The headers of everything that a worker publishes about an assignment: those of the header
    contract.
    """
    headers = {"version": "1", "tenant_id": assignment.tenant_id}
    if assignment.trace_id is not None:
        headers["trace_id"] = assignment.trace_id
    if (traceparent := contract.traceparent_in(message.headers)) is not None:
        headers["traceparent"] = traceparent
    return EncodedHeaders(headers)


def _result(
    assignment: ExecAssignment, done: AttemptsResult, worker_id: str, now_ms: int
) -> dict[str, Any]:
    step = done.step
    body = _correlation_of(assignment)
    body["status"] = RESULT_STATUS[step.status]
    body["latency_ms"] = done.latency_ms
    add_step_fields(body, step)
    own = {"worker_id": worker_id, "attempts": done.attempts}
    # to unpack an empty mapping that is no dict costs 0.25 us
    body["metadata"] = {**step.metadata, **own} if step.metadata else own
    body["timestamp"] = now_ms
    return body


def _correlation_of(assignment: ExecAssignment) -> dict[str, Any]:
    """The correlation fields: which assignment, of whom. Written field by field, because it runs
    for each result.
    """
    fields: dict[str, Any] = {
        "version": "1",
        "assignment_id": assignment.assignment_id,
        "request_id": assignment.request_id,
        "provider_id": assignment.provider_id,
        "job": {"type": assignment.job_type},
        "tenant_id": assignment.tenant_id,
    }
    if assignment.trace_id is not None:
        fields["trace_id"] = assignment.trace_id
    if assignment.run_id is not None:
        fields["run_id"] = assignment.run_id
    if assignment.flow_id is not None:
        fields["flow_id"] = assignment.flow_id
    if assignment.step_id is not None:
        fields["step_id"] = assignment.step_id
    return fields


def _add_payload(body: dict[str, Any], output: object) -> None:
    if isinstance(output, bytes):
        body["payload"], encoding = text_of(output)
        if encoding is not None:
            body["payload_encoding"] = encoding
    elif output is not None:
        body["payload"] = output


def _protobuf(body: Mapping[str, Any]) -> bytes:
    metadata = {
        name: value if isinstance(value, str) else orjson.dumps(value).decode()
        for name, value in body["metadata"].items()
    }
    fields = {
        name: value
        for name, value in body.items()
        if name in result_pb2.ExecResult.DESCRIPTOR.fields_by_name and name != "job"
    }
    return result_pb2.ExecResult(
        **fields, job=result_pb2.Job(type=body["job"]["type"], metadata=metadata)
    ).SerializeToString()


_encode = msgspec.json.Encoder().encode  # leaves out what is absent
