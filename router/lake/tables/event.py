"""From messages to typed events, an Arrow batch at a time; what is no usage event has a reason.

    data ──> UsageBody, checked as it is decoded ──> silver's columns
         └─> whatever else: looked at again, for the reason ──> quarantine's

A cost is a decimal from its text (half up beyond nine places), never a float on the way. The event's identity is the
router's own, computed from the body.

Why a loop in Python: 6 µs of processor time an event, where Spark's expressions over the same JSON took 22.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from hashlib import blake2b
from operator import attrgetter
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import DecodeError, Meta, Struct
from msgspec.json import Decoder

from router.contracts.usage import identity
from router.lake.tables.arrow import EVENT, MESSAGE

REFUSED = MESSAGE.append(pa.field("reason", pa.string()))
REQUIRED = ("tenant_id", "provider_id", "event_type", "status", "latency_ms", "cost", "timestamp")
_AS_SAID = ("tenant_id", "provider_id", "event_type", "status", "latency_ms", "trace_id", "assignment_id", "request_id")
_LAST_TIMESTAMP_MS = 253_402_300_799_999  # the year 9999
_NANO = Decimal("1e-9")
_MONEY = Context(prec=38, rounding=ROUND_HALF_UP)

Text = Annotated[str, Meta(min_length=1)]
Long = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class UsageBody(Struct, gc=False, kw_only=True):
    """What an event has to say. At least one of the last two is there, and not empty."""

    version: str
    tenant_id: Text
    provider_id: Text
    event_type: Text
    status: Text
    latency_ms: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
    cost: Decimal  # after reading, with nine places
    timestamp: Annotated[int, Meta(ge=0, le=_LAST_TIMESTAMP_MS)]
    trace_id: str | None = None
    assignment_id: str | None = None
    request_id: str | None = None


class _Loose(Struct, kw_only=True):
    """The same types, and whatever is wrong with the values."""

    version: str
    tenant_id: str | None = None
    provider_id: str | None = None
    event_type: str | None = None
    status: str | None = None
    latency_ms: Long | None = None
    cost: Decimal | None = None
    timestamp: Long | None = None
    trace_id: str | None = None
    assignment_id: str | None = None
    request_id: str | None = None


_decode, _decode_loosely = Decoder(UsageBody).decode, Decoder(_Loose).decode


def typed(messages: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The events, in silver's columns, and the messages that are none, in quarantine's."""
    data = messages["data"].to_pylist()
    bodies = [_event(one) for one in data]
    reasons = pa.array([_reason(one) if body is None else None for one, body in zip(data, bodies, strict=True)], pa.string())
    is_event = pc.is_null(reasons)
    refused = messages.append_column("reason", reasons).filter(pc.invert(is_event)).cast(REFUSED)
    places = messages.select(["seq", "time"]).filter(is_event)
    return _columns([body for body in bodies if body is not None], places), refused


def _event(data: bytes) -> UsageBody | None:
    try:
        body = _decode(str(data, "utf-8"))  # all of it has to be text, not only what is read
        body.cost = _MONEY.quantize(body.cost, _NANO)
    except (DecodeError, UnicodeDecodeError, RecursionError, InvalidOperation):
        return None
    return body if (body.assignment_id or body.request_id) and body.cost.is_finite() else None


def _reason(data: bytes) -> str:
    """Why this is no event: the first thing that is wrong with it."""
    try:
        body = _decode_loosely(str(data, "utf-8"))
    except UnicodeDecodeError:
        return "not_utf8"
    except (DecodeError, RecursionError):
        return "not_an_event"
    if missing := [name for name in REQUIRED if getattr(body, name) in (None, "")]:
        return f"missing:{missing[0]}"
    if not (body.assignment_id or body.request_id):
        return "missing:assignment_id,request_id"
    if body.latency_ms is not None and body.latency_ms < 0:
        return "invalid:latency_ms"
    if body.timestamp is not None and not 0 <= body.timestamp <= _LAST_TIMESTAMP_MS:
        return "invalid:timestamp"
    return "invalid:cost"


def _columns(bodies: Sequence[UsageBody], places: pa.RecordBatch) -> pa.RecordBatch:
    ids = [identity(body) for body in bodies]  # type: ignore[arg-type]  # it has what an identity is made of
    columns = {
        **{name: _column(map(attrgetter(name), bodies), EVENT.field(name).type) for name in (*_AS_SAID, "cost")},
        "seq": places["seq"],
        "time": places["time"],
        "timestamp": _column(map(attrgetter("timestamp"), bodies), pa.timestamp("ms", "UTC")).cast(EVENT.field("timestamp").type),
        "event_id": pa.array(ids, pa.string()),
        "id_high": _longs(bytes.fromhex("".join([one[6:22] for one in ids]))),
        "id_low": _longs(bytes.fromhex("".join([one[22:] for one in ids]))),
        "content": _longs(b"".join(map(_content, bodies))),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in EVENT.names], schema=EVENT)


def _column(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
    return pa.array(list(values), kind)


def _content(body: UsageBody) -> bytes:
    """Eight bytes that differ where another provider, type, latency or cost is told."""
    told = f"{body.provider_id}\0{body.event_type}\0{body.latency_ms}\0{body.cost}"
    return blake2b(told.encode(), digest_size=8).digest()


def _longs(digests: bytes) -> pa.Array:
    """Eight bytes each, as numbers that nothing but equality is asked of."""
    return pa.Array.from_buffers(pa.int64(), len(digests) // 8, [None, pa.py_buffer(digests)])
