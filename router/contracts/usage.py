"""The usage event: what one outcome cost, once (docs/contracts.md#usage).

Its bytes are a contract: fields in one order, `latency_ms` and `timestamp` integers, `cost` always with a decimal
point, what is absent left out; `correlated: false` is added where the settings ask for that mark. The lake reads them
back and computes the same identity from the body.
"""

from __future__ import annotations

from hashlib import sha256

import orjson
from msgspec import Struct

USAGE_SUBJECT = "beamline.usage.v1.metered"


class UsageEvent(Struct, frozen=True, kw_only=True, gc=False):
    """One metered outcome. At least one of `assignment_id`, `request_id` is there."""

    tenant_id: str
    provider_id: str
    event_type: str  # the job's type
    latency_ms: int
    cost: float
    status: str
    timestamp: int  # milliseconds since the epoch
    trace_id: str | None = None
    assignment_id: str | None = None
    request_id: str | None = None
    is_correlated: bool = True  # False: written as the last field, `correlated`; its assignment is not known


def usage_bytes(event: UsageEvent) -> bytes:
    body: dict[str, object] = {
        "version": "1",
        "tenant_id": event.tenant_id,
        "provider_id": event.provider_id,
        "event_type": event.event_type,
        "latency_ms": event.latency_ms,
        "cost": orjson.Fragment(decimal(event.cost)),
        "status": event.status,
        "timestamp": event.timestamp,
    }
    if event.trace_id is not None:
        body["trace_id"] = event.trace_id
    if event.assignment_id is not None:
        body["assignment_id"] = event.assignment_id
    if event.request_id is not None:
        body["request_id"] = event.request_id
    if not event.is_correlated:
        body["correlated"] = False
    return orjson.dumps(body)


def identity(event: UsageEvent) -> str:
    """`usage:` and 32 hex of sha256 over the compact JSON array [tenant_id, assignment_id or request_id, status]."""
    reference = event.assignment_id or event.request_id
    return "usage:" + sha256(orjson.dumps([event.tenant_id, reference, event.status])).hexdigest()[:32]


def decimal(number: float) -> str:
    """A finite number as JSON with a decimal point: the shortest text that reads back as the same number."""
    text = repr(number)
    if "." in text:
        return text
    mantissa, _, exponent = text.partition("e")  # 1e-07
    return f"{mantissa}.0e{exponent}"
