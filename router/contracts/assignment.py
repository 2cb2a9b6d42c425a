"""Work for a worker: ExecAssignment (docs/reference/contracts.md#assignments), written, and read
back.

    {version, assignment_id, request_id, tenant_id, trace_id?, run_id? flow_id? step_id?,
    executor{provider_id, channel},
     job{type, payload, payload_ref?}, options{priority, deadline_ms, retry},
     correlation{trace_id?}, decision{…}, metadata}

How it stands in the bucket of known assignments is `assignment_record`'s to say.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
import orjson
from msgspec import Struct
from orjson import Fragment

from router.contracts.answer import build_decision_object, decision_fields
from router.contracts.codec import BASE64, UNREADABLE_ERRORS, text_of
from router.contracts.decision import EXECUTED_EXTENSIONS, Decision, RouteRequest
from router.contracts.raw_json import RawJson
from router.contracts.shapes.message_shape import SENT, MessageShape, ShapeLimits
from router.contracts.shapes.parts import Schema, add_description, build_object, refer
from router.core import ids
from router.core.errors import Poison

ASSIGNMENT_SUBJECT = "caf.exec.assign.v1"
DEFAULT_RETRY = {"max_attempts": 2, "backoff_ms": 200}
_WORKFLOW = ("run_id", "flow_id", "step_id")
_NOTHING: dict[str, str] = {}


class Assignment(Struct, frozen=True, kw_only=True):
    """A known assignment: what its acknowledgements and results are compared with and filled from."""

    assignment_id: str
    request_id: str
    tenant_id: str
    provider_id: str
    job_type: str
    deadline_ms: int
    decision: Decision
    requested_at_ms: int  # when the stream stored its request
    trace_id: str | None = None
    # what it has reserved in budgets (`budgets.model.reservation`); no worker hears of it
    reservation: str | None = None
    listed_cost: float | None = None  # what the policy expected, whatever results had taught

    @property
    def expected_cost(self) -> float:
        """What one success may cost by the policy; where no record says so, by the decision."""
        return self.decision.expected_cost if self.listed_cost is None else self.listed_cost


def assignment_id_of(tenant_id: str, request_key: str) -> str:
    """A valid UUID derived from the request identity: the same request has the same one on every
    instance.

    Rule: docs/reference/contracts.md#request-identity.
    """
    return ids.derived_uuid("assignment", tenant_id, request_key)


def deadline_ms(expected_latency_ms: float) -> int:
    """`min(60000, max(5000, 5 × expected_latency_ms))`, rounded half up
    (docs/reference/contracts.md#assignments).
    """
    return math.floor(min(60_000.0, max(5_000.0, 5 * expected_latency_ms)) + 0.5)


class DecisionFragments(Struct, frozen=True):
    """What of an assignment follows from its decision alone, as JSON."""

    decision: Decision
    deadline_ms: int
    executor: Fragment
    options: Fragment
    fields: Fragment


_MAX_FRAGMENTS = 1024
# A policy answers with few decisions and gives the same objects again. Each entry keeps its
# Decision alive: no id is ever reused here.
_fragments: dict[int, DecisionFragments] = {}


def _find_fragments(decision: Decision) -> DecisionFragments:
    return _fragments.get(id(decision)) or _encode_fragments(decision)


def _encode_fragments(decision: Decision) -> DecisionFragments:
    wait_ms = deadline_ms(decision.expected_latency_ms)
    options = {"priority": decision.priority, "deadline_ms": wait_ms, "retry": DEFAULT_RETRY}
    parts = (
        {"provider_id": decision.provider_id, "channel": "nats"},
        options,
        decision_fields(decision),
    )
    fragments = DecisionFragments(
        decision, wait_ms, *[Fragment(orjson.dumps(part)) for part in parts]
    )
    if EXECUTED_EXTENSIONS not in decision.metadata:  # else no other request gets this decision
        if len(_fragments) >= _MAX_FRAGMENTS:
            _fragments.clear()
        _fragments[id(decision)] = fragments
    return fragments


def assignment_bytes(assignment_id: str, request: RouteRequest, decision: Decision) -> bytes:
    """The assignment of one decision; what is absent is left out, but for `job.payload`."""
    fragments = _find_fragments(decision)
    trace = {"trace_id": request.trace_id} if request.trace_id is not None else _NOTHING
    workflow = _NOTHING  # all of it, or none
    if request.run_id is not None:
        workflow = {
            name: value for name in _WORKFLOW if (value := getattr(request, name)) is not None
        }
    return orjson.dumps(
        {
            "version": "1",
            "assignment_id": assignment_id,
            "request_id": request.answer_id,
            "tenant_id": request.tenant_id,
            **trace,
            **workflow,
            "executor": fragments.executor,
            "job": _job(request),
            "options": fragments.options,
            "correlation": trace,
            "decision": fragments.fields,
            "metadata": dict(request.metadata),
        }
    )


def assignment_headers(request: RouteRequest, traceparent: str | None) -> dict[str, str]:
    """`version`, `tenant_id`, `trace_id`, `traceparent`; the Nats-Msg-Id is the assignment's id,
    and its effect's.
    """
    headers = {"version": "1", "tenant_id": request.tenant_id}
    if request.trace_id is not None:
        headers["trace_id"] = request.trace_id
    if traceparent is not None:
        headers["traceparent"] = traceparent
    return headers


def build_assignment(
    assignment_id: str,
    request: RouteRequest,
    decision: Decision,
    reservation: str | None = None,
    *,
    requested_at_ms: int,
) -> Assignment:
    """What `read_assignment` returns of the bytes that `assignment_bytes` makes of these."""
    return Assignment(
        assignment_id=assignment_id,
        request_id=request.answer_id,
        tenant_id=request.tenant_id,
        provider_id=decision.provider_id,
        job_type=request.message_type,
        deadline_ms=_find_fragments(decision).deadline_ms,
        decision=decision,
        requested_at_ms=requested_at_ms,
        trace_id=request.trace_id,
        reservation=reservation,
        listed_cost=decision.listed_cost,
    )


def read_assignment(
    data: bytes,
    reservation: str | None = None,
    listed_cost: float | None = None,
    *,
    requested_at_ms: int,
) -> Assignment:
    """An assignment that a router wrote. Raises Poison when these bytes are none."""
    try:
        wire = _decode(data)
    except UNREADABLE_ERRORS as exc:
        raise Poison("not an assignment") from exc
    return Assignment(
        assignment_id=wire.assignment_id,
        request_id=wire.request_id,
        tenant_id=wire.tenant_id,
        provider_id=wire.executor.provider_id,
        job_type=wire.job.type,
        deadline_ms=wire.options.deadline_ms,
        decision=wire.decision,
        requested_at_ms=requested_at_ms,
        trace_id=wire.trace_id,
        reservation=reservation,
        listed_cost=listed_cost,
    )


def _job(request: RouteRequest) -> dict[str, object]:
    payload = request.payload
    job: dict[str, object] = {
        "type": request.message_type,
        "payload": Fragment(payload.data) if type(payload) is RawJson else payload,
    }
    if isinstance(payload, bytes):
        job["payload"], encoding = text_of(payload)
        if encoding is not None:
            job["payload_encoding"] = BASE64
    if request.payload_ref is not None:
        job["payload_ref"] = request.payload_ref
    return job


class _ExecutorId(Struct):
    provider_id: str


class _JobType(Struct):
    type: str


class _Deadline(Struct):
    deadline_ms: int


class _AssignmentWire(Struct):
    """What is read back of an assignment; the rest is the worker's."""

    assignment_id: str
    request_id: str
    tenant_id: str
    executor: _ExecutorId
    job: _JobType
    options: _Deadline
    decision: Decision
    trace_id: str | None = None


_decode = msgspec.json.Decoder(_AssignmentWire).decode


_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 1}


def build_assignment_shape(_: ShapeLimits) -> MessageShape:
    return MessageShape(
        name="assignment",
        title="ExecAssignment",
        text=(
            "Work for a worker. It comes again until a result of it is stored, so a worker may "
            "see it twice."
        ),
        direction=SENT,
        body=_build_body(),
        page="docs/reference/contracts.md#assignments",
        examples=_list_examples(),
    )


def _build_body() -> dict[str, Any]:
    trace = {"trace_id": refer("id")}
    retry = build_object(
        {"max_attempts": _COUNT, "backoff_ms": {"type": "integer", "minimum": 0}},
        tuple(DEFAULT_RETRY),
    )
    options = {
        "priority": {"type": "integer"},
        "deadline_ms": add_description(
            _COUNT, "for all attempts together, from the begin of the first one, milliseconds"
        ),
        "retry": retry,
    }
    fields: dict[str, Schema] = {
        "version": {"const": "1"},
        "assignment_id": add_description(
            {**_TEXT, "format": "uuid"}, "name it in acknowledgements and results"
        ),
        "request_id": refer("id"),
        "tenant_id": refer("scoped_id"),
        "executor": build_object(
            {"provider_id": _TEXT, "channel": {"const": "nats"}}, ("provider_id", "channel")
        ),
        "job": build_object(_list_job_fields(), ("type", "payload")),
        "options": build_object(options, tuple(options)),
        "correlation": build_object(trace),
        "decision": build_decision_object(),
        "metadata": {"type": "object", "description": "of the request"},
    }
    optional = {**trace, "run_id": refer("id"), "flow_id": refer("id"), "step_id": refer("id")}
    return build_object({**fields, **optional}, tuple(fields))


def _list_job_fields() -> dict[str, Schema]:
    return {
        "type": refer("type"),
        "payload": {"description": "any JSON value, also null"},
        "payload_encoding": {"const": BASE64, "description": "the payload is bytes in base64"},
        "payload_ref": {**_TEXT, "description": "where the payload is, where it is not here"},
    }


def _list_examples() -> tuple[Any, ...]:
    """Written by the code that writes assignments."""
    decision = Decision(
        "openai", "weighted", 50, 800, 0.012, {"policy_id": "fast", "policy_version": "3"}
    )
    request = RouteRequest(
        tenant_id="acme",
        message_type="chat",
        payload=RawJson.encode({"text": "Hello"}),
        request_key="r-1",
        answer_id="r-1",
        trace_id="4bf92f3577b34da6a3ce929d0e0e4736",
        metadata={"source": "gateway"},
        push_assignment=True,
    )
    return (orjson.loads(assignment_bytes(assignment_id_of("acme", "r-1"), request, decision)),)
