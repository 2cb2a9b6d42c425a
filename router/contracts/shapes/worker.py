"""What workers send: results, acknowledgements, heartbeats, reports of unread bytes; bare or in an
envelope (docs/reference/contracts.md#results).

{…}                                   bare
{version, kind, data{…}}              enveloped: `data`, and beside it `tenant_id`, `trace_id`,
                                      `msg_id`, which go first
"""

from __future__ import annotations

from typing import Any

from router.contracts.ack import ACK_STATUSES, EXEC_ASSIGNMENT_ACK
from router.contracts.heartbeat import HEARTBEAT_STATUSES, MAX_INTERVAL_MS
from router.contracts.result import MAX_LATENCY_MS, RESULT, RESULT_STATUSES
from router.contracts.shapes.enveloped import build_worker_message, build_worker_message_of_any_kind
from router.contracts.shapes.message_shape import RECEIVED, MessageShape, ShapeLimits
from router.contracts.shapes.parts import MOMENT, Schema, add_description, build_object, refer
from router.contracts.shapes.precedence import constrain, is_anywhere_present, is_present
from router.contracts.unread_report import UNREAD_KIND

_ANY_TEXT: Schema = {"type": ["string", "null"]}


def build_result(limits: ShapeLimits) -> MessageShape:
    return MessageShape(
        name="result",
        title="ExecResult",
        text="The outcome of an assignment, as a worker reports it. One of assignment_id and "
        "request_id is required. provider_id, job.type"
        " and tenant_id may be left out where the router knows the assignment.",
        direction=RECEIVED,
        body=build_worker_message(RESULT.envelope, _build_result_fields(limits)),
        page="docs/reference/contracts.md#results",
        examples=RESULT_EXAMPLES,
        proto="beamline.worker.v1.ExecResult",
    )


def build_ack(_: ShapeLimits) -> MessageShape:
    return MessageShape(
        name="ack",
        title="ExecAssignmentAck",
        text="Whether a worker takes an assignment.",
        direction=RECEIVED,
        body=build_worker_message(EXEC_ASSIGNMENT_ACK.envelope, _build_ack_fields()),
        page="docs/reference/contracts.md#acks",
        examples=ACK_EXAMPLES,
        proto="beamline.worker.v1.ExecAssignmentAck",
    )


def _build_result_fields(limits: ShapeLimits) -> Schema:
    properties: dict[str, Schema] = {
        "assignment_id": refer("optional_id"),
        "request_id": refer("optional_id"),
        "status": {"enum": sorted(RESULT_STATUSES)},
        "provider_id": add_description(refer("optional_name"), "who did the work"),
        "job": {
            "type": ["object", "null"],
            "properties": {"type": add_description(refer("optional_type"), "the type of the job")},
        },
        "job_type": {"description": "as job.type, which goes first"},
        "latency_ms": {
            "type": "number",
            "minimum": 0,
            "maximum": MAX_LATENCY_MS,
            "description": "how long the work took, milliseconds; it is rounded half up",
        },
        "cost": {
            "type": "number",
            "minimum": 0,
            "maximum": limits.max_cost,
            "description": "what the work cost",
        },
        "timestamp": add_description(
            refer("rounded"),
            "when the work ended, milliseconds since the epoch; the time of its storing if absent",
        ),
        "error_code": {
            "type": ["string", "number", "null"],
            "description": "a number reads as its text",
        },
        "retry_after_ms": add_description(
            refer("rounded"), "of a rate limit: milliseconds until the provider may be asked again"
        ),
        "error_message": _ANY_TEXT,
        **{
            name: {"description": "of a workflow; for other readers"}
            for name in ("run_id", "flow_id", "step_id")
        },
        "payload": {"description": "the output, any JSON value; for other readers"},
        "payload_encoding": {"description": '"base64" where the payload is bytes in base64'},
        "metadata": {"description": "for other readers"},
    }
    has_id = is_anywhere_present((("assignment_id",), ("request_id",)))
    job_type = {
        "if": is_present(("job", "type")),
        "else": constrain(("job_type",), refer("optional_type")),
    }
    return build_object(properties, ("status", "latency_ms", "cost"), allOf=[has_id, job_type])


def _build_ack_fields() -> Schema:
    properties: dict[str, Schema] = {
        "assignment_id": refer("id"),
        "status": {"enum": sorted(ACK_STATUSES)},
        "request_id": refer("optional_id"),
        "acknowledged_at": add_description(
            refer("rounded"), "milliseconds since the epoch; the time of its storing if absent"
        ),
        "message": add_description(_ANY_TEXT, "words for operators"),
    }
    return build_object(properties, ("assignment_id", "status"))


def build_heartbeat(_: ShapeLimits) -> MessageShape:
    fields: dict[str, Schema] = {
        "worker_id": refer("id"),
        "status": {"enum": sorted(HEARTBEAT_STATUSES)},
        "timestamp": add_description(
            MOMENT, "the worker's clock: milliseconds since the epoch, or ISO 8601 in UTC"
        ),
        "load": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
        "capacity": add_description(refer("rounded"), "assignments at once"),
        # Half a millisecond is rounded up to 1.
        "interval_ms": {
            "type": ["number", "null"],
            "minimum": 0.5,
            "exclusiveMaximum": MAX_INTERVAL_MS + 0.5,
            "description": f"the next heartbeat comes within this, milliseconds, 1..{MAX_INTERVAL_MS}",
        },
    }
    return MessageShape(
        name="heartbeat",
        title="Heartbeat",
        text=(
            "A worker's sign of life. After three intervals without one the worker counts as "
            "silent."
        ),
        direction=RECEIVED,
        body=build_worker_message_of_any_kind(build_object(fields, ("worker_id", "status"))),
        page="docs/reference/contracts.md#heartbeats",
        examples=HEARTBEAT_EXAMPLES,
    )


def build_unread_report(_: ShapeLimits) -> MessageShape:
    place = {
        "subject": {"description": "the subject that they came on"},
        "len": {"description": "how many bytes they are"},
    }
    fields: dict[str, Schema] = {
        "reason": {
            "type": "string",
            "minLength": 1,
            "description": "a code, like PARSE_ERROR; operators see it",
        },
        "message": {"description": "words for operators"},
        "payload_ref": {"properties": place, "description": "where the bytes came from"},
        "ts": {"description": "when the worker received them, ISO 8601"},
        **{
            name: {"description": "where it could be read"}
            for name in ("tenant_id", "trace_id", "request_id", "assignment_id")
        },
    }
    report, filled = build_object(fields, ("reason",)), {"type": "object", "minProperties": 1}
    names: dict[str, Schema] = {
        "version": {"description": "the version of the contract"},
        "kind": {"description": UNREAD_KIND},
    }
    enveloped = build_object({**names, "data": {**report, **filled}}, ("data",), title="enveloped")
    bare = {
        **report,
        "properties": {**names, **fields},
        "not": build_object({"data": filled}, ("data",)),
        "title": "bare",
    }
    return MessageShape(
        name="unread-report",
        title="UnreadReport",
        text="What a worker says of bytes that it could not read as an assignment.",
        direction=RECEIVED,
        body={"type": "object", "oneOf": [bare, enveloped]},
        page="docs/reference/contracts.md#workers-dead-letters",
        examples=UNREAD_EXAMPLES,
    )


_ASSIGNMENT_ID = "0a4f0b52-3df5-5a1c-9d1e-2b8f3a3f6f10"
_RESULT: dict[str, Any] = {
    "assignment_id": _ASSIGNMENT_ID,
    "request_id": "r-1",
    "status": "success",
    "provider_id": "openai",
    "latency_ms": 812,
    "cost": 0.0123,
}

RESULT_EXAMPLES: tuple[Any, ...] = (
    {
        "version": "1",
        **_RESULT,
        "job": {"type": "chat"},
        "tenant_id": "acme",
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
    },
    {
        "version": "1",
        "assignment_id": _ASSIGNMENT_ID,
        "status": "error",
        "latency_ms": 40.5,
        "cost": 0,
        "error_code": 2001,
        "error_message": "the handler raised",
    },
    {
        "version": "1",
        "kind": "exec_result",
        "tenant_id": "acme",
        "data": {**_RESULT, "job_type": "chat"},
    },
)
ACK_EXAMPLES: tuple[Any, ...] = (
    {
        "version": "1",
        "assignment_id": _ASSIGNMENT_ID,
        "status": "accepted",
        "tenant_id": "acme",
        "request_id": "r-1",
    },
    {"assignment_id": _ASSIGNMENT_ID, "status": "rejected", "message": "the queue is full"},
    {
        "version": "1",
        "kind": "exec_assignment_ack",
        "data": {"assignment_id": _ASSIGNMENT_ID, "status": "error", "message": "not an image"},
    },
)
HEARTBEAT_EXAMPLES: tuple[Any, ...] = (
    {
        "worker_id": "w-1",
        "timestamp": 1_700_000_000_000,
        "status": "busy",
        "load": 0.75,
        "capacity": 4,
        "interval_ms": 5000,
    },
    {
        "version": "1",
        "kind": "worker_heartbeat",
        "data": {"worker_id": "w-1", "timestamp": "2024-01-15T14:30:00Z", "status": "stopped"},
    },
)
_UNREAD: dict[str, Any] = {
    "reason": "PARSE_ERROR",
    "payload_ref": {"subject": "caf.exec.assign.v1", "len": 17},
    "ts": "2024-01-15T14:30:00Z",
}
UNREAD_EXAMPLES: tuple[Any, ...] = ({"version": "1", "kind": UNREAD_KIND, "data": _UNREAD}, _UNREAD)
