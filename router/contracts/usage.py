"""The usage event: what one outcome cost, once, and adjustments of it
(docs/reference/contracts.md#usage). And its cost, exactly, as the settlement of budgets reads it.

`UsageEvent` declares each field with its schema and its words. Its bytes are a contract: fields in
one order, `latency_ms` and `timestamp` integers, `cost` always with a decimal point, what is absent
left out. The lake reads them back and finds the same identity in the body.

    metered     an outcome, or an attempt that reached a provider; cost 0 or more
    adjusted    the difference to what was booked, and why; its cost may be below 0

An identity that the router made stands in the body (`event_id`), because neither payer nor worker
may choose it.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from hashlib import sha256
from typing import Annotated, Any

import msgspec
import orjson
from msgspec import Meta, Struct, field

from router.contracts.codec import UNREADABLE_ERRORS
from router.contracts.decision import ADJUSTMENT_TYPE, INVOKED_TYPE, STREAMED_TYPE
from router.contracts.money import round_to_nanos
from router.contracts.result import MAX_LATENCY_MS, RESULT_STATUSES
from router.contracts.shapes.message_shape import SENT, MessageShape, ShapeLimits
from router.contracts.shapes.parts import WHOLE, Schema, build_written, is_anywhere_present, refer
from router.contracts.worker import MAX_COST
from router.core.ids import MAX_NAME, MAX_TYPE

USAGE_SUBJECT = "beamline.usage.v1.metered"
ADJUSTED_SUBJECT = "beamline.usage.v1.adjusted"
# why: a later outcome, a held cost, an operator's word
ADJUSTMENTS = frozenset({"outcome", "held", "bill", "budget"})
MAX_TOKENS = 10**10  # of one event: 900 million of them still add up within 64 bits, as gold does
MAX_MODEL = 256  # characters, of a price's version too
MAX_REASON = 512
IDENTITY_FORM = "^usage:[0-9a-f]{32}$"


_NAME: Schema = {"type": "string", "minLength": 1}
_PROVIDER: Schema = {**_NAME, "maxLength": MAX_NAME}
_TYPE: Schema = {**_NAME, "maxLength": MAX_TYPE}
_MODEL: Schema = {**_NAME, "maxLength": MAX_MODEL}
_REASON: Schema = {**_NAME, "maxLength": MAX_REASON}
_LATENCY: Schema = {**WHOLE, "maximum": MAX_LATENCY_MS}
_TOKENS: Schema = {**WHOLE, "maximum": MAX_TOKENS}
_COST: Schema = {"type": "number", "maximum": MAX_COST}  # or the setting's bound
_TOLD: Schema = {"type": "number", "minimum": 0}
_STATUS: Schema = {"enum": sorted(RESULT_STATUSES)}
_IDENTITY: Schema = {"type": "string", "pattern": IDENTITY_FORM}
_ADJUSTMENT: Schema = {"enum": sorted(ADJUSTMENTS)}
_TRUE: Schema = {"const": True}
_FALSE: Schema = {"const": False}
_EVENT_TYPE = (
    f"the type of the job; of an invocation {INVOKED_TYPE} or {STREAMED_TYPE}; {ADJUSTMENT_TYPE}"
)
_TOLD_COST = "what the worker told; the cost is the bound, and the rest is held"
_TOLD_PROVIDER = "whom the worker named, where the assignment has another provider"


class UsageEvent(
    Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="version", tag="1"
):
    """One metered outcome, which has `assignment_id` or `request_id`, or an adjustment. Its fields
    are in the order of the contract.
    """

    tenant_id: Annotated[str, refer("scoped_id")]
    provider_id: Annotated[str, _NAME]
    event_type: Annotated[str, _TYPE, _EVENT_TYPE]
    latency_ms: Annotated[int, _LATENCY]
    cost: Annotated[float, _COST, "with a decimal point; only an adjustment's is below 0"]
    status: Annotated[str, _STATUS]
    timestamp: Annotated[int, WHOLE, "milliseconds since the epoch"]
    trace_id: Annotated[str | None, refer("id")] = None
    assignment_id: Annotated[str | None, refer("id")] = None
    request_id: Annotated[str | None, refer("id")] = None
    event_id: Annotated[
        str | None,
        _IDENTITY,
        "its identity, where the router made it; else it is derived from the ids",
    ] = None
    model: Annotated[str | None, _MODEL, "what the provider says that it used"] = None
    input_tokens: Annotated[int | None, _TOKENS, "tokens of the input"] = None
    cached_tokens: Annotated[int | None, _TOKENS, "of these, what the provider had cached"] = None
    output_tokens: Annotated[int | None, _TOKENS, "tokens of the output"] = None
    price: Annotated[
        str | None, _MODEL, "the version of the price by which the cost was computed"
    ] = None
    is_estimated: Annotated[bool, _TRUE, "computed from what passed by"] = field(
        default=False, name="estimated"
    )
    told_cost: Annotated[float | None, _TOLD, _TOLD_COST] = None
    told_provider_id: Annotated[str | None, _PROVIDER, _TOLD_PROVIDER] = None
    adjustment: Annotated[
        str | None, _ADJUSTMENT, "why an adjustment was made; no outcome has it"
    ] = None
    adjusts: Annotated[str | None, _IDENTITY, "the identity of the event that it corrects"] = None
    budget: Annotated[str | None, _TYPE, "the one budget in which the adjustment counts"] = None
    reason: Annotated[str | None, _REASON, "an operator's word"] = None
    is_correlated: Annotated[bool, _FALSE, "its assignment is not known: it spends no budget"] = (
        field(default=True, name="correlated")
    )


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
    return event.event_id or derive_identity(
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


def build_usage(limits: ShapeLimits) -> MessageShape:
    has_id = is_anywhere_present((("assignment_id",), ("request_id",), ("adjustment",)))
    is_outcome = {"not": {"required": ["adjustment"]}}
    not_negative: Schema = {"if": is_outcome, "then": {"properties": {"cost": {"minimum": 0}}}}
    body = build_written(UsageEvent, allOf=[has_id, not_negative])
    body["properties"]["cost"] = {**body["properties"]["cost"], "maximum": limits.max_cost}
    return MessageShape(
        name="usage",
        title="UsageEvent",
        text=(
            "What one outcome cost, once, or an adjustment of it. Its Nats-Msg-Id is "
            "`event_id`, else derived from its ids and status."
        ),
        direction=SENT,
        body=body,
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


# -- A stored usage event as the settlement of budgets reads it: who spent how much, exactly.
#
# The cost is read from its text as the lake reads it, half up beyond nine places, and never as a
# float.


class UsageCost(Struct, frozen=True, gc=False):
    """One event. `event_id`: its identity; `nanos`: the cost, below 0 in adjustments alone.

    `reference`: the assignment or request whose first event ends its reservation; None: the event
    itself does, or it is an adjustment. `is_correlated`: else it spends no budget. `budget`: the
    only one in which an adjustment of a budget counts.
    """

    tenant_id: str
    provider_id: str
    reference: str | None
    event_id: str
    nanos: int
    is_correlated: bool = True
    adjustment: str | None = None
    budget: str | None = None


class _UsageBody(Struct, gc=False):
    tenant_id: str
    provider_id: str
    event_type: str
    status: str
    cost: Any
    assignment_id: str | None = None
    request_id: str | None = None
    event_id: Annotated[str, Meta(pattern=IDENTITY_FORM)] | None = None
    adjustment: str | None = None
    budget: str | None = None
    correlated: bool = True


def read_usage_cost(data: bytes) -> UsageCost | None:
    """None for bytes that are no event: the lake puts them aside too."""
    try:
        body = _decode_usage_cost(data)
        nanos = round_to_nanos(Decimal(body.cost))
    except (*UNREADABLE_ERRORS, InvalidOperation, ValueError, TypeError):
        return None
    ids = body.assignment_id or body.request_id
    if not (_is_adjustment(body) if body.adjustment is not None else _is_outcome(body, ids, nanos)):
        return None
    event_id = body.event_id or identity_of(body.tenant_id, ids, body.status)
    reference = ids if body.event_id is None else None
    return UsageCost(
        body.tenant_id,
        body.provider_id,
        reference,
        event_id,
        nanos,
        body.correlated,
        body.adjustment,
        body.budget,
    )


def _is_adjustment(body: _UsageBody) -> bool:
    return (
        body.adjustment in ADJUSTMENTS
        and body.event_type == ADJUSTMENT_TYPE
        and body.event_id is not None
    )


def _is_outcome(body: _UsageBody, ids: str | None, nanos: int) -> bool:
    """No payer and no worker makes an outcome that takes money off a bill, or that passes for an
    adjustment.
    """
    return bool(ids) and nanos >= 0 and body.event_type != ADJUSTMENT_TYPE


_decode_usage_cost = msgspec.json.Decoder(_UsageBody, float_hook=Decimal).decode
