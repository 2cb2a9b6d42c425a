"""The usage event: what one outcome cost, once (docs/reference/contracts.md#usage).

Its bytes are a contract: fields in one order, `latency_ms` and `timestamp` integers, `cost` always with a decimal
point, what is absent left out; `correlated: false` is added where the settings ask for that mark. The lake reads them
back and computes the same identity from the body.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec
import orjson
from msgspec import Struct, field

USAGE_SUBJECT = "beamline.usage.v1.metered"


class UsageEvent(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="version", tag="1"):
    """One metered outcome. At least one of `assignment_id`, `request_id` is there. Its fields are in the order of the contract."""

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
    is_correlated: bool = field(default=True, name="correlated")  # False: written as the last field; its assignment is not known


def usage_bytes(event: UsageEvent) -> bytes:
    if 1e-4 <= event.cost < 1e16 or not event.cost:  # nearly always: msgspec writes it with its decimal point, and without an exponent
        return _encode(event)
    return orjson.dumps({**msgspec.to_builtins(event), "cost": orjson.Fragment(decimal(event.cost))})


def identity(event: UsageEvent) -> str:
    """`usage:` and 32 hex of sha256 over the compact JSON array [tenant_id, assignment_id or request_id, status]."""
    return identity_of(event.tenant_id, event.assignment_id or event.request_id, event.status)


def identity_of(tenant_id: str, reference: str | None, status: str) -> str:
    """`identity` of an event with these fields; `reference`: the assignment_id or request_id."""
    return "usage:" + sha256(orjson.dumps([tenant_id, reference, status])).hexdigest()[:32]


def decimal(number: float) -> str:
    """A finite number as JSON with a decimal point: the shortest text that reads back as the same number."""
    text = repr(number)
    if "." in text:
        return text
    mantissa, _, exponent = text.partition("e")  # 1e-07
    return f"{mantissa}.0e{exponent}"


_encode = msgspec.json.Encoder().encode
