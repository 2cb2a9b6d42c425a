"""The answer to a decide request, in JSON (docs/reference/contracts.md#answers)."""

from __future__ import annotations

from typing import Any

import orjson

from router.contracts.answer import build_hint_warning, failure, success, success_with
from router.contracts.canary import ARM
from router.contracts.codes import read_codes
from router.contracts.decision import Decision
from router.contracts.shapes.message_shape import SENT, MessageShape, ShapeLimits
from router.contracts.shapes.parts import Schema, add_description, build_object, refer

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
        },
        additionalProperties=_TEXT,
        description=(
            "text by name: policy_id, policy_version, where extensions ran executed_extensions "
            "(JSON as text), of a canary its arm"
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


def _list_examples() -> tuple[Any, ...]:
    """Written by the code that writes answers."""
    decision = Decision(
        "openai", "weighted", 50, 800, 0.012, {"policy_id": "fast", "policy_version": "3"}
    )
    problem, place = "Missing required field: tenant_id", {"field": "message.tenant_id"}
    written = (
        success(decision, "r-1", "4bf92f3577b34da6a3ce929d0e0e4736"),
        success_with([build_hint_warning("polcy_id", "policy_id")], decision, "r-1"),
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
