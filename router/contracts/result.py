"""What a worker says when an assignment is over: ExecResult (docs/reference/contracts.md#results).

Required: `status`, `latency_ms`, `cost`, and one of `assignment_id`, `request_id`. `provider_id`,
`job.type` and `tenant_id` are left None where the known assignment may fill them. One page of the
specification requires both ids, as UUIDs, the other one of them; the other holds.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from router.contracts.field_readers import (
    Object,
    is_scoped,
    read_amount,
    read_choice,
    read_excerpt,
    read_id,
    read_message_id,
    read_tenant,
    read_text,
    read_trace,
    read_whole,
)
from router.contracts.first_stored import first_stored_ms
from router.contracts.malformed import (
    CORRELATION_FIELDS_INVALID,
    STAGE_CORRELATION,
    Malformed,
    invalid_field,
    missing_field,
)
from router.contracts.pb.beamline.worker.v1 import result_pb2
from router.contracts.plain_worker import PlainResult, decode_plain, decode_result
from router.contracts.usage import RESERVED, RESERVED_TYPES
from router.contracts.worker import (
    DAY_MS,
    DEFAULT_LIMITS,
    MessageType,
    ReadResult,
    WorkerMessageLimits,
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
    return read(message, RESULT, _result, limits)


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


def _result(message: Message, body: Object, limits: WorkerMessageLimits) -> ExecResult:
    headers = message.headers
    assignment_id, request_id = read_id(body, "assignment_id"), read_id(body, "request_id")
    if assignment_id is None and request_id is None:
        problem = "Missing required field: assignment_id or request_id"
        raise Malformed(CORRELATION_FIELDS_INVALID, problem, STAGE_CORRELATION, "assignment_id")
    latency_ms, cost = (
        read_whole(body, "latency_ms", MAX_LATENCY_MS),
        read_amount(body, "cost", limits.max_cost),
    )
    if latency_ms is None or cost is None:
        name = "latency_ms" if latency_ms is None else "cost"
        raise missing_field(name, name)
    return ExecResult(
        assignment_id=assignment_id,
        request_id=request_id,
        status=read_choice(body, "status", RESULT_STATUSES),
        latency_ms=latency_ms,
        cost=cost,
        timestamp=_timestamp(message, body, limits),
        tenant_id=read_tenant(headers, body),
        provider_id=read_text(body, "provider_id"),
        job_type=_job_type(body),
        trace_id=read_trace(headers, body),
        error_code=_error_code(body),
        error_message=read_excerpt(body, "error_message"),
        retry_after_ms=_retry_after_ms(body),
        msg_id=read_message_id(headers, body),
    )


def _timestamp(message: Message, body: Object, limits: WorkerMessageLimits) -> int:
    """A clock that is wrong would put the cost on a bill of another year, so it is refused, and no
    other time is made up for it.
    """
    stored, first = message.stored_ms, first_stored_ms(message)
    told = read_whole(body, "timestamp") or first  # 0 is how protobuf says absent
    if not stored - limits.max_timestamp_age_ms <= told <= first + limits.max_timestamp_ahead_ms:
        around = (
            f"{limits.max_timestamp_age_ms} ms before to {limits.max_timestamp_ahead_ms} ms "
            "after the message was first stored"
        )
        raise invalid_field(
            "timestamp", "timestamp", f"milliseconds since the epoch, from {around}"
        )
    return told


def _job_type(body: Object) -> str | None:
    """`job.type`, else a flat `job_type`; not a type of adjustments or invocations, which no
    outcome has.
    """
    job = body.get("job")
    if job is not None and type(job) is not dict:
        raise invalid_field("job", "job", "an object")
    found = read_text(job, "type", "job.type", most=MAX_TYPE) if job is not None else None
    found = found or read_text(body, "job_type", "job.type", most=MAX_TYPE)
    if found in RESERVED_TYPES:
        raise invalid_field("job.type", "job.type", f"text of 1..{MAX_TYPE} characters, {RESERVED}")
    return found


def _error_code(body: Object) -> str | None:
    """Text; a number reads as its text (CAF's codes are 1xxx..5xxx)."""
    value = body.get("error_code")
    if value is None or value == "":
        return None
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) not in (str, int, float):
        raise invalid_field("error_code", "error_code", "text or a number")
    return str(value)[:MAX_CODE]


def _retry_after_ms(body: Object) -> int | None:
    """A longer time is cut, because a hint is no reason to leave a result unmetered. 0 is how
    protobuf says absent.
    """
    told = read_whole(body, "retry_after_ms")
    return min(told, MAX_LATENCY_MS) if told else None


def _from_protobuf(data: bytes) -> dict[str, Any]:
    sent = result_pb2.ExecResult.FromString(data)
    return {
        "assignment_id": sent.assignment_id,
        "request_id": sent.request_id,
        "status": sent.status,
        "provider_id": sent.provider_id,
        "job_type": sent.job.type,
        "latency_ms": sent.latency_ms,
        "cost": sent.cost,
        "trace_id": sent.trace_id,
        "tenant_id": sent.tenant_id,
        "timestamp": sent.timestamp,
        "error_code": sent.error_code,
        "error_message": sent.error_message,
        "retry_after_ms": sent.retry_after_ms,
    }


# the worker's: a number that no double holds is no reason to lose what was done
_OUTPUT = frozenset({"payload", "output"})
RESULT = MessageType("exec_result", ("assignment_id", "request_id"), _from_protobuf, _OUTPUT)
