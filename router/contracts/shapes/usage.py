"""A usage event: what one outcome cost (docs/reference/contracts.md#usage)."""

from __future__ import annotations

from typing import Any

import orjson

from router.contracts.result import MAX_LATENCY_MS, RESULT_STATUSES
from router.contracts.shapes.message_shape import SENT, MessageShape, ShapeLimits
from router.contracts.shapes.parts import Schema, add_description, build_object, refer
from router.contracts.shapes.precedence import is_anywhere_present
from router.contracts.usage import (
    ADJUSTMENTS,
    IDENTITY_FORM,
    MAX_MODEL,
    MAX_REASON,
    MAX_TOKENS,
    UsageEvent,
    usage_bytes,
)
from router.core.ids import MAX_NAME, MAX_TYPE


def build_usage(limits: ShapeLimits) -> MessageShape:
    fields: dict[str, Schema] = {
        "version": {"const": "1"},
        "tenant_id": refer("scoped_id"),
        "provider_id": {"type": "string", "minLength": 1},
        "event_type": _text(
            MAX_TYPE,
            (
                "the type of the job; of an invocation provider.invoke or "
                "provider.invoke.stream; usage.adjustment"
            ),
        ),
        "latency_ms": {"type": "integer", "minimum": 0, "maximum": MAX_LATENCY_MS},
        "cost": {
            "type": "number",
            "maximum": limits.max_cost,
            "description": "with a decimal point; only an adjustment's is below 0",
        },
        "status": {"enum": sorted(RESULT_STATUSES)},
        "timestamp": {
            "type": "integer",
            "minimum": 0,
            "description": "milliseconds since the epoch",
        },
    }
    optional: dict[str, Schema] = {
        "trace_id": refer("id"),
        "assignment_id": refer("id"),
        "request_id": refer("id"),
        "event_id": add_description(
            {"type": "string", "pattern": IDENTITY_FORM},
            "its identity, where the router made it; else it is derived from the ids",
        ),
        "model": _text(MAX_MODEL, "what the provider says that it used"),
        "input_tokens": _count("tokens of the input"),
        "cached_tokens": _count("of these, what the provider had cached"),
        "output_tokens": _count("tokens of the output"),
        "price": _text(MAX_MODEL, "the version of the price by which the cost was computed"),
        "estimated": {"const": True, "description": "computed from what passed by"},
        "told_cost": {
            "type": "number",
            "minimum": 0,
            "description": "what the worker told; the cost is the bound, and the rest is held",
        },
        "told_provider_id": _text(
            MAX_NAME, "whom the worker named, where the assignment has another provider"
        ),
        "adjustment": {
            "enum": sorted(ADJUSTMENTS),
            "description": "why an adjustment was made; no outcome has it",
        },
        "adjusts": add_description(
            {"type": "string", "pattern": IDENTITY_FORM},
            "the identity of the event that it corrects",
        ),
        "budget": _text(MAX_TYPE, "the one budget in which the adjustment counts"),
        "reason": _text(MAX_REASON, "an operator's word"),
        "correlated": {
            "const": False,
            "description": "its assignment is not known: it spends no budget",
        },
    }
    has_id = is_anywhere_present((("assignment_id",), ("request_id",), ("adjustment",)))
    is_outcome = {"not": {"required": ["adjustment"]}}
    not_negative: Schema = {"if": is_outcome, "then": {"properties": {"cost": {"minimum": 0}}}}
    return MessageShape(
        name="usage",
        title="UsageEvent",
        text=(
            "What one outcome cost, once, or an adjustment of it. Its Nats-Msg-Id is "
            "`event_id`, else derived from its ids and status."
        ),
        direction=SENT,
        body=build_object({**fields, **optional}, tuple(fields), allOf=[has_id, not_negative]),
        page="docs/reference/contracts.md#usage",
        examples=_list_examples(),
    )


def _text(most: int, text: str) -> Schema:
    return {"type": "string", "minLength": 1, "maxLength": most, "description": text}


def _count(text: str) -> Schema:
    return {"type": "integer", "minimum": 0, "maximum": MAX_TOKENS, "description": text}


def _list_examples() -> tuple[Any, ...]:
    """Written by the code that writes usage events."""
    event = UsageEvent(
        tenant_id="acme",
        provider_id="openai",
        event_type="chat",
        latency_ms=812,
        cost=0.0123,
        status="success",
        timestamp=1_700_000_000_500,
        trace_id="4bf92f3577b34da6a3ce929d0e0e4736",
        assignment_id="0a4f0b52-3df5-5a1c-9d1e-2b8f3a3f6f10",
        request_id="r-1",
    )
    return (orjson.loads(usage_bytes(event)),)
