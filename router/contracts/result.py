"""What a worker says when an assignment is over: ExecResult (docs/reference/contracts.md#results).

    ExecResult    what the router works with
    RESULT_SPEC   what stands on the wire: both readers, the schema and the page are made of it

A new field is a line of ExecResult, a `Field` of `_FIELDS`, and a kind if it has a rule of its own;
then a line of `proto/beamline/worker/v1/result.proto` (`make proto client-types`), a row of
docs/explanation/threats.md, and a value in tests/contracts/test_plain_worker. What of these is
forgotten is an error at import, or of a test, that names it. Where our own workers are to send it:
`router.sdk.step`.

`provider_id`, `job.type` and `tenant_id` are left None where the known assignment may fill them.
One page of the specification requires both ids, as UUIDs, the other one of them; the other holds.
"""

from __future__ import annotations

from msgspec import Struct

from router.contracts import field_kinds as kind
from router.contracts.decision import RESERVED, RESERVED_TYPES
from router.contracts.field_readers import Object, read_amount, read_text, read_whole
from router.contracts.malformed import invalid_field
from router.contracts.message_spec import Field, MessageSpec, build_plain, build_reader, build_wire
from router.contracts.pb.beamline.worker.v1 import result_pb2
from router.contracts.shapes.parts import Schema, add_description, constrain, is_present, refer
from router.contracts.worker import (
    DAY_MS,
    DEFAULT_LIMITS,
    ReadResult,
    Received,
    WorkerMessageLimits,
    read,
)
from router.core.ids import MAX_TYPE
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
    job_type = read_text(job, "type", "job.type", most=MAX_TYPE) if job is not None else None
    job_type = job_type or read_text(body, name, "job.type", most=MAX_TYPE)
    if job_type in RESERVED_TYPES:
        raise invalid_field("job.type", "job.type", f"text of 1..{MAX_TYPE} characters, {RESERVED}")
    return job_type


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


class PlainJob(Struct, forbid_unknown_fields=True, gc=False):
    """The job of an ordinary result."""

    type: str | None = None


# never -0.0
_PLAIN_COST = kind.PlainForm(type=float, value="body.$ + 0.0", is_usual="0 <= $ <= limits.max_cost")
_PLAIN_TIMESTAMP = kind.PlainForm(
    type=kind.PLAIN_WHOLE,
    value="body.$ or first_stored_ms(message)",
    is_usual="message.stored_ms - limits.max_timestamp_age_ms "
    "<= $ <= first_stored_ms(message) + limits.max_timestamp_ahead_ms",
    is_filled=True,
)
_PLAIN_TYPE = kind.PlainForm(
    type=str,
    value="(body.job.type if body.job is not None else None) or body.$ or None",
    is_usual=f"len($) <= {MAX_TYPE} and $ not in RESERVED_TYPES",
    names={"RESERVED_TYPES": RESERVED_TYPES},
)
_PLAIN_CODE = kind.PlainForm(type=str, value=f"body.$[:{MAX_CODE}] if body.$ else None")
_PLAIN_RETRY = kind.PlainForm(
    type=kind.PLAIN_WHOLE, value=f"min(body.$, {MAX_LATENCY_MS}) if body.$ else None"
)

_COST = kind.FieldKind({"type": "number", "minimum": 0}, _read_cost, "max_cost", plain=_PLAIN_COST)
_TIMESTAMP = kind.FieldKind(refer("rounded"), _read_timestamp, plain=_PLAIN_TIMESTAMP)
_WHOLE_JOB = kind.FieldKind(_JOB, plain=kind.PlainForm(type=PlainJob))
_FLAT_TYPE = kind.build_kind({}, _read_job_type, _PLAIN_TYPE)
_ERROR_CODE = kind.build_kind(_CODE, _read_error_code, _PLAIN_CODE)
_RETRY_AFTER = kind.build_kind(refer("rounded"), _read_retry_after, _PLAIN_RETRY)

_FIELDS = (
    Field("assignment_id", kind.OPTIONAL_ID, example=_ASSIGNMENT_ID),
    Field("request_id", kind.OPTIONAL_ID, example="r-1"),
    Field("status", kind.build_choice(RESULT_STATUSES), is_required=True, example="success"),
    Field("provider_id", kind.NAME, "who did the work", example="openai"),
    Field("job", _WHOLE_JOB),
    Field("job_type", _FLAT_TYPE, "as job.type, which goes first", path="job.type"),
    Field("latency_ms", kind.build_whole(MAX_LATENCY_MS), _LATENCY, is_required=True, example=812),
    Field("cost", _COST, "what the work cost", is_required=True, example=0.0123),
    Field("timestamp", _TIMESTAMP, _ENDED),
    Field("error_code", _ERROR_CODE, "a number reads as its text"),
    Field("retry_after_ms", _RETRY_AFTER, _RETRY),
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
read_plain_result = build_plain(RESULT_SPEC)


def read_result(
    message: Message, limits: WorkerMessageLimits = DEFAULT_LIMITS
) -> ReadResult[ExecResult]:
    """One stored message as a result, or as the Fault that its dead letter will tell."""
    plain = read_plain_result(message, limits)
    return ReadResult(plain) if plain is not None else read_carefully(message, limits)


def read_carefully(
    message: Message, limits: WorkerMessageLimits = DEFAULT_LIMITS
) -> ReadResult[ExecResult]:
    """`read_result` of any message: what is not ordinary, and what is wrong. It is the rule, and
    takes twice as long.
    """
    return read(message, RESULT, _read, limits)
