"""The bytes of an answer to a decide request (docs/reference/contracts.md#answers).

    success            {"ok": true, "decision": {…}, "context": {request_id, trace_id?}}
    success_with       the same, and "warnings": [{code, message, details}]
    with_message       either, and "message": {…}, as `contracts.extension` writes it
    failure            {"ok": false, "error": {code, message, details?}, "context": {request_id,
                       trace_id?}}
    success_protobuf   beamline.flow.v1.RouteDecision, for `Accept: application/x-protobuf`

What is absent is left out, never null. `expected_latency_ms` is an integer on both wires (int64 in
the proto).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from router.contracts.canary import ARM
from router.contracts.codec import BASE64
from router.contracts.codes import read_codes
from router.contracts.decision import (
    ASSIGNMENT_SKIPPED,
    EXECUTED_EXTENSIONS,
    OF_CANDIDATE,
    UNKNOWN_FIELD,
    Decision,
    SkippedAssignment,
)
from router.contracts.pb.beamline.flow.v1.flow_pb2 import RouteDecision
from router.contracts.shapes.message_shape import SENT, MessageShape, ShapeLimits
from router.contracts.shapes.parts import Schema, add_description, build_object, refer

DID_YOU_MEAN = "did_you_mean"  # in details
MAX_WHOLE = 2**53  # what every reader of JSON and of protobuf can hold, to the last digit
_MAX_FRAGMENTS = 1024
# A policy answers with few decisions and gives the same objects again. Each entry keeps its
# Decision alive: no id is ever reused here.
_fragments: dict[int, tuple[Decision, bytes]] = {}
_OPENING = b'{"ok":true,"decision":'
_CONTEXT = b',"context":{"request_id":'


def success(decision: Decision, answer_id: str, trace_id: str | None = None) -> bytes:
    """The JSON answer that carries a decision."""
    kept = _fragments.get(id(decision))
    fragment = kept[1] if kept is not None else _fragment(decision)
    if trace_id is None:
        return b"%b%b}}" % (fragment, orjson.dumps(answer_id))
    return b'%b%b,"trace_id":%b}}' % (fragment, orjson.dumps(answer_id), orjson.dumps(trace_id))


def success_with(
    warnings: Sequence[Mapping[str, object]],
    decision: Decision,
    answer_id: str,
    trace_id: str | None = None,
) -> bytes:
    """The same of a decision that leaves out something that was asked for."""
    return b'%b,"warnings":%b}' % (
        success(decision, answer_id, trace_id)[:-1],
        orjson.dumps(warnings),
    )


def with_message(answer: bytes, message: bytes) -> bytes:
    """A successful answer with what the pre-processors left of the message."""
    return b'%b,"message":%b}' % (answer[:-1], message)


def build_skipped_warning(skipped: SkippedAssignment) -> dict[str, object]:
    """It was to be pushed, and has no assignment."""
    details = {"field": "push_assignment", "reason": skipped.reason}
    return {"code": ASSIGNMENT_SKIPPED, "message": skipped.message, "details": details}


def build_hint_warning(name: str, meant: str) -> dict[str, object]:
    """A field that is not known was ignored, and looks like one that is."""
    text = f"Unknown field {name} was ignored: did you mean {meant}?"
    return {"code": UNKNOWN_FIELD, "message": text, "details": {"field": name, DID_YOU_MEAN: meant}}


def failure(
    code: str,
    message: str,
    details: Mapping[str, object] | None,
    answer_id: str,
    trace_id: str | None = None,
) -> bytes:
    """The JSON answer that says no."""
    error: dict[str, object] = {"code": code, "message": message}
    if details:
        error["details"] = dict(details)
    context = (
        {"request_id": answer_id}
        if trace_id is None
        else {"request_id": answer_id, "trace_id": trace_id}
    )
    return orjson.dumps(
        {"ok": False, "error": error, "context": context},
        default=_to_plain,
        option=orjson.OPT_NON_STR_KEYS,
    )


def success_protobuf(decision: Decision) -> bytes:
    """The decision alone, as protobuf RouteDecision."""
    return RouteDecision(
        provider_id=decision.provider_id,
        reason=decision.reason,
        priority=decision.priority,
        expected_latency_ms=_round_whole(decision.expected_latency_ms),
        expected_cost=_number(decision.expected_cost),
        metadata=decision.metadata,
    ).SerializeToString()


def decision_fields(decision: Decision) -> dict[str, object]:
    """A decision as JSON shows it: in answers, and inside an assignment."""
    return {
        "provider_id": decision.provider_id,
        "reason": decision.reason,
        "priority": decision.priority,
        "expected_latency_ms": _round_whole(decision.expected_latency_ms),
        "expected_cost": _number(decision.expected_cost),
        "metadata": dict(decision.metadata),
    }


def decision_bytes(decision: Decision) -> bytes:
    """`decision_fields` as JSON; it is encoded once for a decision of a policy."""
    kept = _fragments.get(id(decision))
    return (kept[1] if kept is not None else _fragment(decision))[len(_OPENING) : -len(_CONTEXT)]


def _fragment(decision: Decision) -> bytes:
    fragment = _OPENING + orjson.dumps(decision_fields(decision)) + _CONTEXT
    if EXECUTED_EXTENSIONS in decision.metadata:
        return fragment  # no other request gets this decision
    if len(_fragments) >= _MAX_FRAGMENTS:
        _fragments.clear()
    _fragments[id(decision)] = (decision, fragment)
    return fragment


def _round_whole(milliseconds: float) -> int:
    return math.floor(min(max(_number(milliseconds), -MAX_WHOLE), MAX_WHOLE) + 0.5)


def _number(value: float) -> float:
    """A JSON number always: orjson would write NaN and infinity as null."""
    return float(value) if math.isfinite(value) else 0.0


def _to_plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)


_TEXT: Schema = {"type": "string"}


def build_answer(_: ShapeLimits) -> MessageShape:
    return MessageShape(
        name="answer",
        title="RouteAnswer",
        text=(
            "The decision, or why there is none. With `Accept: application/x-protobuf` a "
            "decision alone is sent as protobuf."
        ),
        direction=SENT,
        body={"type": "object", "oneOf": [_build_success(), _build_failure()]},
        page="docs/reference/contracts.md#answers",
        examples=_list_examples(),
        proto="beamline.flow.v1.RouteDecision",
    )


def build_decision_object() -> Schema:
    """A decision as it stands in answers, assignments and requests to post-processors."""
    metadata = build_object(
        {
            "policy_id": _TEXT,
            "policy_version": {**_TEXT, "pattern": "^[0-9]+$"},
            "executed_extensions": _TEXT,
            ARM: _TEXT,
            **dict.fromkeys(sorted(OF_CANDIDATE), _TEXT),
        },
        additionalProperties=_TEXT,
        description=(
            "text by name: policy_id, policy_version, where extensions ran executed_extensions "
            "(JSON as text), of a canary its arm, of a candidate that has them model and "
            "parameters (JSON as text)"
        ),
    )
    reasons = [code.code for code in read_codes().values() if "decision" in code.kinds]
    fields: dict[str, Schema] = {
        "provider_id": _TEXT,
        "reason": {**_TEXT, "description": f"why this provider: {', '.join(reasons)}"},
        "priority": {"type": "integer"},
        "expected_latency_ms": {"type": "integer", "description": "milliseconds"},
        "expected_cost": {"type": "number"},
        "metadata": metadata,
    }
    return build_object(fields, tuple(fields))


def build_content_object(**more: Schema) -> dict[str, Any]:
    """What a message says, as extensions get it, and requesters that ask what became of theirs."""
    content: dict[str, Schema] = {
        **more,
        "message_type": refer("type"),
        "payload": {"description": "any JSON value, also null"},
        "payload_encoding": {"const": BASE64, "description": "the payload is bytes in base64"},
        "payload_ref": _TEXT,
        "metadata": {"type": "object"},
    }
    return build_object(content, (*more, "message_type", "payload", "metadata"))


def _build_success() -> Schema:
    context = build_object({"request_id": refer("id"), "trace_id": refer("id")}, ("request_id",))
    warning = build_object(
        {"code": _TEXT, "message": _TEXT, "details": {"type": "object"}},
        ("code", "message", "details"),
    )
    fields: dict[str, Schema] = {
        "ok": {"const": True},
        "decision": build_decision_object(),
        "context": context,
        "warnings": {
            "type": "array",
            "items": warning,
            "description": "what was asked for and not done, or not understood",
        },
        "message": add_description(
            build_content_object(),
            "what the pre-processors left of it, where `return_message` asks and one of them ran",
        ),
    }
    return build_object(fields, ("ok", "decision", "context"), title="decided")


def _build_failure() -> Schema:
    codes = sorted(code.code for code in read_codes().values() if "answer" in code.kinds)
    error = build_object(
        {
            "code": {
                "type": "string",
                "description": f"one of {', '.join(codes)}; `router explain CODE` explains it",
            },
            "message": _TEXT,
            "details": add_description(
                {"type": "object"},
                "`field`, `cause`, `retry_after_ms`, `did_you_mean`, where they are known",
            ),
        },
        ("code", "message"),
    )
    context = build_object({"request_id": refer("id"), "trace_id": refer("id")}, ("request_id",))
    return build_object(
        {"ok": {"const": False}, "error": error, "context": context},
        ("ok", "error", "context"),
        title="refused",
    )


_EXAMPLE = (
    b'{"message_type":"chat","payload":{"text":"My card is [credit_card]"},'
    b'"metadata":{"source":"gateway"}}'
)


def _list_examples() -> tuple[Any, ...]:
    """Written by the code that writes answers."""
    decision = Decision(
        "openai", "weighted", 50, 800, 0.012, {"policy_id": "fast", "policy_version": "3"}
    )
    problem, place = "Missing required field: tenant_id", {"field": "message.tenant_id"}
    written = (
        success(decision, "r-1", "4bf92f3577b34da6a3ce929d0e0e4736"),
        success_with([build_hint_warning("polcy_id", "policy_id")], decision, "r-1"),
        with_message(success(decision, "r-1"), _EXAMPLE),
        failure("invalid_request", problem, place, "r-1"),
        failure(
            "overloaded",
            "Too many requests wait",
            {"cause": "tenant_share", "retry_after_ms": 1000},
            "r-1",
            "t-1",
        ),
    )
    return tuple(map(orjson.loads, written))
