"""An assignment as a worker receives it (docs/reference/contracts.md#assignments)."""

from __future__ import annotations

from typing import Any

import orjson

from router.contracts.assignment import DEFAULT_RETRY, assignment_bytes, assignment_id_of
from router.contracts.codec import BASE64
from router.contracts.decision import Decision
from router.contracts.raw_json import RawJson
from router.contracts.request import RouteRequest
from router.contracts.shapes.answer import build_decision_object
from router.contracts.shapes.message_shape import SENT, MessageShape, ShapeLimits
from router.contracts.shapes.parts import Schema, add_description, build_object, refer

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 1}


def build_assignment(_: ShapeLimits) -> MessageShape:
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
