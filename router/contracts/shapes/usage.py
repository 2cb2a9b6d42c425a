"""A usage event: what one outcome cost (docs/reference/contracts.md#usage)."""

from __future__ import annotations

from typing import Any

import orjson

from router.contracts.result import MAX_LATENCY_MS, RESULT_STATUSES
from router.contracts.shapes.message_shape import SENT, MessageShape, ShapeLimits
from router.contracts.shapes.parts import Schema, add_description, build_object, refer
from router.contracts.shapes.precedence import is_anywhere_present
from router.contracts.usage import UsageEvent, usage_bytes


def build_usage(limits: ShapeLimits) -> MessageShape:
    fields: dict[str, Schema] = {
        "version": {"const": "1"},
        "tenant_id": refer("scoped_id"),
        "provider_id": {"type": "string", "minLength": 1},
        "event_type": add_description(refer("type"), "the type of the job; of an invocation provider.invoke or provider.invoke.stream"),
        "latency_ms": {"type": "integer", "minimum": 0, "maximum": MAX_LATENCY_MS},
        "cost": {"type": "number", "minimum": 0, "maximum": limits.max_cost, "description": "always with a decimal point"},
        "status": {"enum": sorted(RESULT_STATUSES)},
        "timestamp": {"type": "integer", "minimum": 0, "description": "milliseconds since the epoch"},
    }
    optional: dict[str, Schema] = {
        "trace_id": refer("id"),
        "assignment_id": refer("id"),
        "request_id": refer("id"),
        "correlated": {"const": False, "description": "its assignment is not known; only where the settings ask for the mark"},
    }
    has_id = is_anywhere_present((("assignment_id",), ("request_id",)))
    return MessageShape(
        name="usage",
        title="UsageEvent",
        text="What one outcome cost, once. Its Nats-Msg-Id is derived from tenant, assignment (or request) and status.",
        direction=SENT,
        body=build_object({**fields, **optional}, tuple(fields), allOf=[has_id]),
        page="docs/reference/contracts.md#usage",
        examples=_list_examples(),
    )


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
