"""Read one message's bytes as a usage event, or find the reason why they are none. No Arrow here.

    an outcome      has an assignment or a request, and costs 0 or more
    an adjustment   has `adjustment`, an identity and a type of its own; its cost may be below 0

Every text has a greatest length, and every number a least and a greatest value: what counts can be
summed, written and shown, so no event blocks the ones after it. A cost is a JSON number, read as a
decimal from its text (half up beyond nine places), and never as a float.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from re import fullmatch
from typing import Annotated, Any, Literal

from msgspec import DecodeError, Meta, Struct
from msgspec.json import Decoder

from router.contracts.decision import ADJUSTMENT_TYPE
from router.contracts.result import MAX_LATENCY_MS, RESULT_STATUSES
from router.contracts.usage import ADJUSTMENTS, IDENTITY_FORM, MAX_MODEL, MAX_REASON, MAX_TOKENS
from router.contracts.worker import DAY_MS, MAX_COST, MAX_TIMESTAMP_AGE_MS, MAX_TIMESTAMP_AHEAD_MS
from router.core.ids import MAX_NAME, MAX_TYPE

REQUIRED_FIELDS = (
    "tenant_id",
    "provider_id",
    "event_type",
    "status",
    "latency_ms",
    "cost",
    "timestamp",
)
LAST_TIMESTAMP_MS = 253_402_300_799_999  # the year 9999
_NANO = Decimal("1e-9")
_MONEY = Context(prec=38, rounding=ROUND_HALF_UP)

Id = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
OptionalId = Annotated[str, Meta(max_length=MAX_NAME)] | None
Name = Annotated[str, Meta(min_length=1, max_length=MAX_TYPE)]
OptionalName = Annotated[str, Meta(max_length=MAX_TYPE)] | None
OptionalModel = Annotated[str, Meta(max_length=MAX_MODEL)] | None
OptionalIdentity = Annotated[str, Meta(pattern=IDENTITY_FORM)] | None
OptionalTokens = Annotated[int, Meta(ge=0, le=MAX_TOKENS)] | None


class EventBounds(Struct, frozen=True, kw_only=True):
    """The greatest cost of an event, and how far its timestamp may be from the time at which its
    stream stored it.

    An event is stored later than its result: the result may have waited in its own stream, and
    before that as a dead letter.
    """

    # compared with each cost: a float would cost more than to round it
    max_cost: Decimal = Decimal(MAX_COST)
    max_age_ms: int = MAX_TIMESTAMP_AGE_MS + 37 * DAY_MS
    max_ahead_ms: int = MAX_TIMESTAMP_AHEAD_MS


BOUNDS = EventBounds()
ANY_BOUNDS = EventBounds(
    max_cost=Decimal(10) ** 15, max_age_ms=LAST_TIMESTAMP_MS, max_ahead_ms=LAST_TIMESTAMP_MS
)  # the widest that settings allow


class UsageBody(Struct, gc=False, kw_only=True):
    """The body of an event. An outcome has an `assignment_id` or `request_id` that is not empty."""

    version: Literal["1"]
    tenant_id: Id
    provider_id: Name
    event_type: Name
    status: Literal["success", "error", "timeout", "cancelled"]
    latency_ms: Annotated[int, Meta(ge=0, le=MAX_LATENCY_MS)]
    cost: Any  # a number; once it is read, a Decimal with nine places
    timestamp: Annotated[int, Meta(ge=0, le=LAST_TIMESTAMP_MS)]
    trace_id: OptionalId = None
    assignment_id: OptionalId = None
    request_id: OptionalId = None
    event_id: OptionalIdentity = None
    model: OptionalModel = None
    input_tokens: OptionalTokens = None
    cached_tokens: OptionalTokens = None
    output_tokens: OptionalTokens = None
    price: OptionalModel = None
    estimated: bool = False
    told_cost: Any = None  # as `cost`
    told_provider_id: OptionalName = None
    adjustment: Literal["outcome", "held", "bill", "budget"] | None = None
    adjusts: OptionalIdentity = None
    budget: OptionalName = None
    reason: Annotated[str, Meta(max_length=MAX_REASON)] | None = None
    correlated: bool = True


class LooseBody(Struct, kw_only=True):
    """The same types, with any values: to find what is wrong with them."""

    version: str
    tenant_id: str | None = None
    provider_id: str | None = None
    event_type: str | None = None
    status: str | None = None
    latency_ms: int | None = None
    cost: Any = None
    timestamp: int | None = None
    trace_id: str | None = None
    assignment_id: str | None = None
    request_id: str | None = None
    event_id: str | None = None
    model: str | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    price: str | None = None
    estimated: bool = False
    told_cost: Any = None
    told_provider_id: str | None = None
    adjustment: str | None = None
    adjusts: str | None = None
    budget: str | None = None
    reason: str | None = None
    correlated: bool = True


def _is_longer(than: int) -> Callable[[Any], bool]:
    return lambda text: text is not None and len(text) > than


def _is_no_identity(text: str | None) -> bool:
    return text is not None and fullmatch(IDENTITY_FORM, text) is None


def _is_no_count(tokens: int | None) -> bool:
    return tokens is not None and not 0 <= tokens <= MAX_TOKENS


# Whether a present value is wrong, in the order in which reasons are given. Cost and timestamp have
# checks of their own.
_IS_WRONG: dict[str, Callable[[Any], bool]] = {
    "version": lambda version: version != "1",
    "tenant_id": _is_longer(MAX_NAME),
    "provider_id": _is_longer(MAX_TYPE),
    "event_type": _is_longer(MAX_TYPE),
    "status": lambda status: status not in RESULT_STATUSES,
    "latency_ms": lambda latency: not 0 <= latency <= MAX_LATENCY_MS,
    "trace_id": _is_longer(MAX_NAME),
    "assignment_id": _is_longer(MAX_NAME),
    "request_id": _is_longer(MAX_NAME),
    "event_id": _is_no_identity,
    "model": _is_longer(MAX_MODEL),
    "input_tokens": _is_no_count,
    "cached_tokens": _is_no_count,
    "output_tokens": _is_no_count,
    "price": _is_longer(MAX_MODEL),
    "told_provider_id": _is_longer(MAX_TYPE),
    "adjustment": lambda why: why is not None and why not in ADJUSTMENTS,
    "adjusts": _is_no_identity,
    "budget": _is_longer(MAX_TYPE),
    "reason": _is_longer(MAX_REASON),
}

_decode = Decoder(UsageBody, float_hook=Decimal).decode
_decode_loosely = Decoder(LooseBody, float_hook=Decimal).decode


def read_event(data: bytes, stored_ms: int, bounds: EventBounds = BOUNDS) -> UsageBody | None:
    """Return the event in the body of a message that its stream stored at `stored_ms`; None if it
    is no event.
    """
    try:
        # the whole body must be text, also the fields that nothing reads
        body = _decode(str(data, "utf-8"))
        body.cost = _round_money(body.cost)
        if body.told_cost is not None:
            body.told_cost = _round_money(body.told_cost)
    except (DecodeError, UnicodeDecodeError, RecursionError, InvalidOperation):
        return None
    if (
        not _is_near(body.timestamp, stored_ms, bounds)
        or not -bounds.max_cost <= body.cost <= bounds.max_cost
    ):
        return None
    is_plain = (
        body.adjustment is None and body.cost >= 0 and (body.assignment_id or body.request_id)
    )
    # nearly every event
    if (
        is_plain
        and body.event_type != ADJUSTMENT_TYPE
        and body.budget is None
        and body.told_cost is None
    ):
        return body
    return body if _find_contradiction(body, bounds) is None else None


def find_reason(data: bytes, stored_ms: int, bounds: EventBounds = BOUNDS) -> str:
    """Return why this is no event: the first thing that is wrong with it."""
    try:
        body = _decode_loosely(str(data, "utf-8"))
    except UnicodeDecodeError:
        return "not_utf8"
    except InvalidOperation:
        return "invalid:cost"  # no Decimal has such an exponent
    except (DecodeError, RecursionError):
        return "not_an_event"
    if missing := [name for name in REQUIRED_FIELDS if getattr(body, name) in (None, "")]:
        return f"missing:{missing[0]}"
    if wrong := [name for name, is_wrong in _IS_WRONG.items() if is_wrong(getattr(body, name))]:
        return f"invalid:{wrong[0]}"
    if contradiction := _find_contradiction(body, bounds):
        return contradiction
    return (
        "invalid:cost"
        if body.timestamp is not None and _is_near(body.timestamp, stored_ms, bounds)
        else "invalid:timestamp"
    )


def _find_contradiction(body: UsageBody | LooseBody, bounds: EventBounds) -> str | None:
    """Return what an event of its kind lacks, or must not have. Each of its fields is right by
    itself.
    """
    if not _is_amount(body.told_cost, bounds):
        return "invalid:told_cost"
    if (body.adjustment is None) != (body.event_type != ADJUSTMENT_TYPE):
        return "invalid:adjustment"
    if (body.budget is None) != (body.adjustment != "budget") or body.budget == "":
        return "invalid:budget"
    return (
        _find_fault_of_outcome(body) if body.adjustment is None else _find_fault_of_adjustment(body)
    )


def _find_fault_of_outcome(body: UsageBody | LooseBody) -> str | None:
    if not (body.assignment_id or body.request_id):
        return "missing:assignment_id,request_id"
    return "invalid:cost" if type(body.cost) in (int, Decimal) and body.cost < 0 else None


def _find_fault_of_adjustment(body: UsageBody | LooseBody) -> str | None:
    if body.event_id is None:
        return "missing:event_id"
    # it would count in the bill, and not in the budgets
    return None if body.correlated else "invalid:correlated"


def _is_amount(told: Any, bounds: EventBounds) -> bool:
    """Whether it is absent, or a number that an event may cost."""
    try:
        return told is None or bool(0 <= _round_money(told) <= bounds.max_cost)
    except InvalidOperation:
        return False


def _round_money(number: Any) -> Decimal:
    """Round to nine places. Raises InvalidOperation if it is no number, or has more than 29 digits
    before the point.
    """
    if type(number) not in (int, Decimal):
        raise InvalidOperation
    return _MONEY.quantize(number, _NANO)


def _is_near(timestamp: int, stored_ms: int, bounds: EventBounds) -> bool:
    is_of_calendar = 0 <= timestamp <= LAST_TIMESTAMP_MS
    return (
        is_of_calendar
        and stored_ms - bounds.max_age_ms <= timestamp <= stored_ms + bounds.max_ahead_ms
    )
