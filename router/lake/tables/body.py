"""Read one message's bytes as a usage event, or find the reason why they are none. No Arrow here.

Every text has a greatest length, and every number a least and a greatest value: what counts can be summed, written and shown,
so no event blocks the ones after it. A cost is a JSON number, read as a decimal from its text (half up beyond nine places), and
never as a float.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from re import fullmatch
from typing import Annotated, Any, Literal

from msgspec import DecodeError, Meta, Struct
from msgspec.json import Decoder

from router.contracts.result import MAX_LATENCY_MS, RESULT_STATUSES
from router.contracts.usage import IDENTITY_FORM
from router.contracts.worker import DAY_MS, MAX_COST, MAX_TIMESTAMP_AGE_MS, MAX_TIMESTAMP_AHEAD_MS
from router.core.ids import MAX_NAME, MAX_TYPE

REQUIRED_FIELDS = ("tenant_id", "provider_id", "event_type", "status", "latency_ms", "cost", "timestamp")
LAST_TIMESTAMP_MS = 253_402_300_799_999  # the year 9999
_NANO = Decimal("1e-9")
_MONEY = Context(prec=38, rounding=ROUND_HALF_UP)

Id = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
OptionalId = Annotated[str, Meta(max_length=MAX_NAME)] | None
Name = Annotated[str, Meta(min_length=1, max_length=MAX_TYPE)]


class EventBounds(Struct, frozen=True, kw_only=True):
    """The greatest cost of an event, and how far its timestamp may be from the time at which its stream stored it.

    An event is stored later than its result: the result may have waited in its own stream, and before that as a dead letter.
    """

    max_cost: float = MAX_COST
    max_age_ms: int = MAX_TIMESTAMP_AGE_MS + 37 * DAY_MS
    max_ahead_ms: int = MAX_TIMESTAMP_AHEAD_MS


BOUNDS = EventBounds()
ANY_BOUNDS = EventBounds(max_cost=1e15, max_age_ms=LAST_TIMESTAMP_MS, max_ahead_ms=LAST_TIMESTAMP_MS)  # the widest that settings allow


class UsageBody(Struct, gc=False, kw_only=True):
    """The body of an event. `assignment_id` or `request_id` is there and not empty."""

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
    event_id: Annotated[str, Meta(pattern=IDENTITY_FORM)] | None = None


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


def _is_longer(than: int) -> Callable[[Any], bool]:
    return lambda text: text is not None and len(text) > than


# Whether a present value is wrong, in the order in which reasons are given. Cost and timestamp have checks of their own.
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
    "event_id": lambda one: one is not None and fullmatch(IDENTITY_FORM, one) is None,
}

_decode = Decoder(UsageBody, float_hook=Decimal).decode
_decode_loosely = Decoder(LooseBody, float_hook=Decimal).decode


def read_event(data: bytes, stored_ms: int, bounds: EventBounds = BOUNDS) -> UsageBody | None:
    """Return the event in the body of a message that its stream stored at `stored_ms`; None if it is no event."""
    try:
        body = _decode(str(data, "utf-8"))  # the whole body must be text, also the fields that nothing reads
        body.cost = _round_money(body.cost)
    except (DecodeError, UnicodeDecodeError, RecursionError, InvalidOperation):
        return None
    is_event = (body.assignment_id or body.request_id) and _is_near(body.timestamp, stored_ms, bounds)
    return body if is_event and 0 <= body.cost <= bounds.max_cost else None


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
    if not (body.assignment_id or body.request_id):
        return "missing:assignment_id,request_id"
    if wrong := [name for name, is_wrong in _IS_WRONG.items() if is_wrong(getattr(body, name))]:
        return f"invalid:{wrong[0]}"
    return "invalid:cost" if body.timestamp is not None and _is_near(body.timestamp, stored_ms, bounds) else "invalid:timestamp"


def _round_money(number: Any) -> Decimal:
    """Round to nine places. Raises InvalidOperation if it is no number, or has more than 29 digits before the point."""
    if type(number) not in (int, Decimal):
        raise InvalidOperation
    return _MONEY.quantize(number, _NANO)


def _is_near(timestamp: int, stored_ms: int, bounds: EventBounds) -> bool:
    earliest, latest = max(0, stored_ms - bounds.max_age_ms), min(stored_ms + bounds.max_ahead_ms, LAST_TIMESTAMP_MS)
    return earliest <= timestamp <= latest
