"""The usage event: what one outcome cost, once, and adjustments of it
(docs/reference/contracts.md#usage).

Its bytes are a contract: fields in one order, `latency_ms` and `timestamp` integers, `cost` always
with a decimal point, what is absent left out. The lake reads them back and finds the same identity
in the body.

    metered     an outcome, or an attempt that reached a provider; cost 0 or more
    adjusted    the difference to what was booked, and why; its cost may be below 0

An identity that the router made stands in the body (`event_id`), because neither payer nor worker
may choose it.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec
import orjson
from msgspec import Struct, field

from router.contracts.codec import UNREADABLE_ERRORS

USAGE_SUBJECT = "beamline.usage.v1.metered"
ADJUSTED_SUBJECT = "beamline.usage.v1.adjusted"
ADJUSTMENT_TYPE = "usage.adjustment"  # the event_type of every adjustment, and of nothing else
# of every attempt of an invocation, and of nothing else
INVOKED_TYPE, STREAMED_TYPE = "provider.invoke", "provider.invoke.stream"
# no request, result or job may say one
RESERVED_TYPES = frozenset({ADJUSTMENT_TYPE, INVOKED_TYPE, STREAMED_TYPE})
RESERVED = f"but {ADJUSTMENT_TYPE}, {INVOKED_TYPE} and {STREAMED_TYPE}"
# why: a later outcome, a held cost, an operator's word
ADJUSTMENTS = frozenset({"outcome", "held", "bill", "budget"})
MAX_TOKENS = 10**10  # of one event: 900 million of them still add up within 64 bits, as gold does
MAX_MODEL = 256  # characters, of a price's version too
MAX_REASON = 512
IDENTITY_FORM = "^usage:[0-9a-f]{32}$"


class UsageEvent(
    Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="version", tag="1"
):
    """One metered outcome, which has `assignment_id` or `request_id`, or an adjustment. Its fields
    are in the order of the contract.
    """

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
    event_id: str | None = None  # the identity, where the router made it
    model: str | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None  # of the input
    output_tokens: int | None = None
    price: str | None = None  # the version of the price by which the cost was computed
    is_estimated: bool = field(default=False, name="estimated")  # from what passed by
    # what the worker told, where the cost is its bound: the rest is held
    told_cost: float | None = None
    told_provider_id: str | None = None  # whom the worker named, where the assignment has another
    adjustment: str | None = None  # one of ADJUSTMENTS
    adjusts: str | None = None  # the identity of the event that it corrects
    budget: str | None = None  # the one budget in which it counts
    reason: str | None = None
    # False: written as the last field; its assignment is not known
    is_correlated: bool = field(default=True, name="correlated")


def usage_bytes(event: UsageEvent) -> bytes:
    # nearly always: msgspec writes it with its decimal point, and without an exponent
    if (1e-4 <= event.cost < 1e16 or not event.cost) and event.told_cost is None:
        return _encode(event)
    told = (
        {} if event.told_cost is None else {"told_cost": orjson.Fragment(decimal(event.told_cost))}
    )
    return orjson.dumps(
        {**msgspec.to_builtins(event), "cost": orjson.Fragment(decimal(event.cost)), **told}
    )


def identity(event: UsageEvent) -> str:
    """The event's own, else `usage:` and 32 hex of sha256 over the compact JSON array [tenant_id,
    assignment_id or request_id, status].
    """
    return event.event_id or identity_of(
        event.tenant_id, event.assignment_id or event.request_id, event.status
    )


def identity_of(tenant_id: str, reference: str | None, status: str) -> str:
    """`identity` of an event with these fields; `reference`: the assignment_id or request_id."""
    return derive_identity(tenant_id, reference, status)


def assignment_identity(tenant_id: str, assignment_id: str) -> str:
    """Of the one bill of an assignment, whatever its outcomes."""
    return derive_identity(tenant_id, assignment_id)


def derive_identity(*parts: str | None) -> str:
    """`usage:` and 32 hex digits of the sha256 over the compact JSON array of these."""
    return "usage:" + sha256(orjson.dumps(parts)).hexdigest()[:32]


def read_usage_event(data: bytes) -> UsageEvent | None:
    """None for bytes that are no event."""
    try:
        return _decode(data)
    except UNREADABLE_ERRORS:
        return None


def decimal(number: float) -> str:
    """A finite number as JSON with a decimal point: the shortest text that reads back as the same
    number.
    """
    text = repr(number)
    if "." in text:
        return text
    mantissa, _, exponent = text.partition("e")  # 1e-07
    return f"{mantissa}.0e{exponent}"


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(UsageEvent).decode
