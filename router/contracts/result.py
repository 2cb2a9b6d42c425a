"""What a worker says when an assignment is over: ExecResult (docs/reference/contracts.md#results).

    ExecResult    what the router works with
    RESULT_SPEC   what stands on the wire: reader, schema, protobuf and page are made of it
    PlainResult   an ordinary result, for the fast reader

A new field of a result stands in these three, and in `proto/beamline/worker/v1/result.proto`.

`provider_id`, `job.type` and `tenant_id` are left None where the known assignment may fill them.
One page of the specification requires both ids, as UUIDs, the other one of them; the other holds.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from router.contracts import field_kinds as kind
from router.contracts.decision import RESERVED, RESERVED_TYPES
from router.contracts.field_readers import (
    MAX_INT64,
    Object,
    is_scoped,
    read_amount,
    read_text,
    read_whole,
)
from router.contracts.headers import first_stored_ms
from router.contracts.malformed import invalid_field
from router.contracts.message_spec import Field, MessageSpec, build_reader, build_wire
from router.contracts.pb.beamline.worker.v1 import result_pb2
from router.contracts.shapes.parts import Schema, add_description, constrain, is_present, refer
from router.contracts.worker import (
    DAY_MS,
    DEFAULT_LIMITS,
    PlainBody,
    ReadResult,
    Received,
    WorkerMessageLimits,
    decode_plain,
    read,
)
from router.core.ids import MAX_NAME, MAX_TYPE, is_opaque
from router.core.masking import MAX_TEXT, shorten
from router.core.message import Message

RESULT_SUBJECT = "caf.exec.result.v1"
# characters of an error code; the rest is cut: a code decides nothing about the outcome
MAX_CODE = 128
RESULT_STATUSES = frozenset({"success", "error", "timeout", "cancelled"})
MAX_LATENCY_MS = 30 * DAY_MS  # longer than a stream keeps the assignment


class ExecResult(Struct, frozen=True, kw_only=True, gc=False):
    """A valid outcome of one assignment, whatever form it came in."""

    assignment_id: str | None
    request_id: str | None
    status: str  # one of STATUSES
    latency_ms: int  # rounded half up
    cost: float  # in the policy's currency
    # milliseconds since the epoch; the time of its first storing where none was given
    timestamp: int
    tenant_id: str | None = None
    provider_id: str | None = None
    job_type: str | None = None
    trace_id: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    # of a rate limit: when the provider may be asked again; at most MAX_LATENCY_MS
    retry_after_ms: int | None = None
    msg_id: str | None = None


def _read_cost(sent: Received, name: str) -> float | None:
    return read_amount(sent.body, name, sent.limits.max_cost)


def _read_timestamp(sent: Received, name: str) -> int:
    """A clock that is wrong would put the cost on a bill of another year, so it is refused, and no
    other time is made up for it.
    """
    limits = sent.limits
    told = read_whole(sent.body, name) or sent.first_ms  # 0 is how protobuf says absent
    if (
        not sent.stored_ms - limits.max_timestamp_age_ms
        <= told
        <= sent.first_ms + limits.max_timestamp_ahead_ms
    ):
        around = (
            f"{limits.max_timestamp_age_ms} ms before to {limits.max_timestamp_ahead_ms} ms "
            "after the message was first stored"
        )
        raise invalid_field(name, name, f"milliseconds since the epoch, from {around}")
    return told


def _read_job_type(body: Object, name: str) -> str | None:
    """`job.type`, else a flat `job_type`; not a type of adjustments or invocations, which no
    outcome has.
    """
    job = body.get("job")
    if job is not None and type(job) is not dict:
        raise invalid_field("job", "job", "an object")
    found = read_text(job, "type", "job.type", most=MAX_TYPE) if job is not None else None
    found = found or read_text(body, name, "job.type", most=MAX_TYPE)
    if found in RESERVED_TYPES:
        raise invalid_field("job.type", "job.type", f"text of 1..{MAX_TYPE} characters, {RESERVED}")
    return found


def _read_error_code(body: Object, name: str) -> str | None:
    """Text; a number reads as its text (CAF's codes are 1xxx..5xxx)."""
    value = body.get(name)
    if value is None or value == "":
        return None
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) not in (str, int, float):
        raise invalid_field(name, name, "text or a number")
    return str(value)[:MAX_CODE]


def _read_retry_after(body: Object, name: str) -> int | None:
    """A longer time is cut, because a hint is no reason to leave a result unmetered. 0 is how
    protobuf says absent.
    """
    told = read_whole(body, name)
    return min(told, MAX_LATENCY_MS) if told else None


_CODE: Schema = {"type": ["string", "number", "null"]}
_TYPE = add_description(refer("optional_type"), "the type of the job")
_JOB: Schema = {"type": ["object", "null"], "properties": {"type": _TYPE}}
_HAS_TYPE = is_present(("job", "type"))
_ASSIGNMENT_ID = "0a4f0b52-3df5-5a1c-9d1e-2b8f3a3f6f10"
_WORKFLOW = "of a workflow; for other readers"
_LATENCY = "how long the work took, milliseconds; it is rounded half up"
_ENDED = "when the work ended, milliseconds since the epoch; the time of its storing if absent"
_RETRY = "of a rate limit: milliseconds until the provider may be asked again"
_COST = kind.FieldKind({"type": "number", "minimum": 0}, _read_cost, "max_cost")
_FLAT_TYPE = kind.build_kind({}, _read_job_type)

_FIELDS = (
    Field("assignment_id", kind.OPTIONAL_ID, example=_ASSIGNMENT_ID),
    Field("request_id", kind.OPTIONAL_ID, example="r-1"),
    Field("status", kind.build_choice(RESULT_STATUSES), is_required=True, example="success"),
    Field("provider_id", kind.NAME, "who did the work", example="openai"),
    Field("job", kind.FieldKind(_JOB)),
    Field("job_type", _FLAT_TYPE, "as job.type, which goes first", path="job.type"),
    Field("latency_ms", kind.build_whole(MAX_LATENCY_MS), _LATENCY, is_required=True, example=812),
    Field("cost", _COST, "what the work cost", is_required=True, example=0.0123),
    Field("timestamp", kind.FieldKind(refer("rounded"), _read_timestamp), _ENDED),
    Field("error_code", kind.build_kind(_CODE, _read_error_code), "a number reads as its text"),
    Field("retry_after_ms", kind.build_kind(refer("rounded"), _read_retry_after), _RETRY),
    Field("error_message", kind.EXCERPT),
    *(Field(name, kind.ANY, _WORKFLOW) for name in ("run_id", "flow_id", "step_id")),
    Field("payload", kind.ANY, "the output, any JSON value; for other readers"),
    Field("payload_encoding", kind.ANY, '"base64" where the payload is bytes in base64'),
    Field("metadata", kind.ANY, "for other readers"),
)
_EXAMPLE = {field.name: field.example for field in _FIELDS if field.example is not None}
_DONE = {"tenant_id": "acme", "data": {**_EXAMPLE, "job_type": "chat"}}
_FAILED = {"assignment_id": _ASSIGNMENT_ID, "status": "error", "latency_ms": 40.5, "cost": 0}
_WHY = {"error_code": 2001, "error_message": "the handler raised"}
_WHOSE = {"tenant_id": "acme", "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736"}
RESULT_SPEC = MessageSpec(
    name="result",
    title="ExecResult",
    text="The outcome of an assignment, as a worker reports it. One of assignment_id and "
    "request_id is required. provider_id, job.type"
    " and tenant_id may be left out where the router knows the assignment.",
    page="docs/reference/contracts.md#results",
    made=ExecResult,
    fields=_FIELDS,
    envelope="exec_result",
    proto=result_pb2.ExecResult,
    ids=("assignment_id", "request_id"),
    first=("latency_ms", "cost"),
    # The worker's: a number that no double holds is no reason to lose what was done.
    kept=frozenset({"payload", "output"}),
    rules=({"if": _HAS_TYPE, "else": constrain(("job_type",), refer("optional_type"))},),
    examples=(
        {"version": "1", **_EXAMPLE, "job": {"type": "chat"}, **_WHOSE},
        {"version": "1", **_FAILED, **_WHY},
        {"version": "1", "kind": "exec_result", **_DONE},
    ),
)
RESULT = build_wire(RESULT_SPEC)
_read = build_reader(RESULT_SPEC)


def read_result(
    message: Message, limits: WorkerMessageLimits = DEFAULT_LIMITS
) -> ReadResult[ExecResult]:
    """One stored message as a result, or as the Fault that its dead letter will tell."""
    body = decode_plain(message, limits, decode_result)
    found = _build_plain(message, body, limits) if body is not None else None
    return ReadResult(found) if found is not None else read_carefully(message, limits)


def read_carefully(
    message: Message, limits: WorkerMessageLimits = DEFAULT_LIMITS
) -> ReadResult[ExecResult]:
    """`read_result` of any message: what is not ordinary, and what is wrong. It is the rule, and
    takes twice as long.
    """
    return read(message, RESULT, _read, limits)


class PlainJob(Struct, forbid_unknown_fields=True, gc=False):
    type: str | None = None


_ABSENT = Raw(b"null")


class PlainResult(PlainBody, forbid_unknown_fields=True, kw_only=True, gc=False):
    """An ordinary result. The fields from `output` on are for others, and only kept from being
    unknown.

    What `sdk.reports` writes as the output is a `payload`.
    """

    status: str
    latency_ms: int
    cost: float
    timestamp: Annotated[int, Meta(ge=0, le=MAX_INT64)] | None = None
    provider_id: str | None = None
    job: PlainJob | None = None
    job_type: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    retry_after_ms: Annotated[int, Meta(ge=0, le=MAX_INT64)] | None = None
    output: Raw = _ABSENT
    payload: Raw = _ABSENT
    payload_encoding: Any = None
    metadata: Any = None
    run_id: Any = None
    flow_id: Any = None
    step_id: Any = None


decode_result = msgspec.json.Decoder(PlainResult).decode


def _build_plain(
    message: Message, body: PlainResult, limits: WorkerMessageLimits
) -> ExecResult | None:
    """The result; None where a value is not as it usually is. Of a header that is there the
    contract was checked: it holds.
    """
    headers, first = message.headers, first_stored_ms(message)
    timestamp, latency_ms, cost, job = body.timestamp or first, body.latency_ms, body.cost, body.job
    tenant_id, trace_id, message_id = (
        headers.get("tenant_id"),
        headers.get("trace_id"),
        headers.get("Nats-Msg-Id"),
    )
    assignment_id, request_id, provider_id = (
        body.assignment_id or None,
        body.request_id or None,
        body.provider_id or None,
    )
    job_type = (job.type if job is not None else None) or body.job_type or None
    if (
        body.status not in RESULT_STATUSES
        or not 0 <= latency_ms <= MAX_LATENCY_MS
        or not 0 <= cost <= limits.max_cost
        or not message.stored_ms - limits.max_timestamp_age_ms
        <= timestamp
        <= first + limits.max_timestamp_ahead_ms
        or (assignment_id is None and request_id is None)
        or not (assignment_id is None or is_opaque(assignment_id))
        or not (request_id is None or is_opaque(request_id))
        or not (provider_id is None or len(provider_id) <= MAX_NAME)
        or not (job_type is None or (len(job_type) <= MAX_TYPE and job_type not in RESERVED_TYPES))
        or body.msg_id
        # With a tenant's header the contract was asked about the id too.
        or not (message_id is None or tenant_id is not None or is_opaque(message_id))
    ):
        return None
    if (
        tenant_id is None
        and (tenant_id := body.tenant_id or None) is not None
        and not is_scoped(tenant_id)
    ):
        return None
    if (
        trace_id is None
        and (trace_id := body.trace_id or None) is not None
        and not is_opaque(trace_id)
    ):
        return None
    return ExecResult(
        assignment_id=assignment_id,
        request_id=request_id,
        status=body.status,
        latency_ms=latency_ms,
        cost=cost + 0.0,  # never -0.0
        timestamp=timestamp,
        tenant_id=tenant_id,
        provider_id=provider_id,
        job_type=job_type,
        trace_id=trace_id,
        error_code=body.error_code[:MAX_CODE] if body.error_code else None,
        error_message=shorten(body.error_message, MAX_TEXT) if body.error_message else None,
        retry_after_ms=min(body.retry_after_ms, MAX_LATENCY_MS) if body.retry_after_ms else None,
        msg_id=message_id,
    )
