"""The envelope that an agent gets, read from a message, and the same at every delivery of it
(docs/reference/requirements.md#mf-9).

    idempotency_key   the body's, else `Nats-Msg-Id`, else stream, sequence and stream time:
                      sequences begin again in a stream made anew
    ts                the body's as it is, else the stream's time in milliseconds: a redelivery
                      gives the same
    trace_id          the body's, else the `traceparent`'s, else derived from the key; span_id
                      likewise
    payload           any JSON value; absent = {}

`canonical` is its content as bytes: the store keeps them, and the hashes are made of them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

import orjson
from msgspec import Raw, Struct

from router.contracts import headers as contract
from router.contracts.codec import MAX_PAYLOAD_BYTES, read_foreign_object
from router.contracts.exact_json import dump_json, load_json, load_written, may_lose_digits
from router.contracts.headers import first_stored_ms
from router.contracts.malformed import invalid_field, missing_field
from router.core import ids
from router.core.message import Message

Ts = int | float | str
MAX_KEY = 256
_FRESH = hashlib.blake2b(digest_size=24)  # a copy of it costs a third of a new one
_TRACE = re.compile(r"(?!0{32})[0-9a-f]{32}")  # W3C Trace Context


class Envelope(Struct, frozen=True, kw_only=True, gc=False):
    """One event or command (docs/reference/requirements.md#mf-4). `ts`: the sender's value as it
    is, or the stream's milliseconds.
    """

    idempotency_key: str
    type: str
    ts: Ts
    trace_id: str
    span_id: str
    payload: Any
    causation_id: str | None = None
    written: bytes | None = None  # the payload's JSON, where floats do not hold each number of it

    @property
    def canonical(self) -> bytes:
        """JSON with sorted names and without absent fields: equal content gives equal bytes."""
        body = self.to_json()
        if self.written is not None:
            body["payload"] = Raw(self.written)
        return dump_json(body, orjson.OPT_SORT_KEYS)

    @property
    def payload_json(self) -> bytes:
        """The payload with every digit that came, names sorted."""
        return (
            self.written
            if self.written is not None
            else dump_json(self.payload, orjson.OPT_SORT_KEYS)
        )

    def to_json(self) -> dict[str, Any]:
        body = {
            "idempotency_key": self.idempotency_key,
            "type": self.type,
            "ts": self.ts,
            "trace_id": self.trace_id,
            "span_id": self.span_id,
            "payload": self.payload,
        }
        if self.causation_id is not None:
            body["causation_id"] = self.causation_id
        return body


def read_envelope(message: Message, max_bytes: int = MAX_PAYLOAD_BYTES) -> Envelope:
    """Read the envelope in a message. Raises Malformed, which names the field; limits are checked
    before parsing.
    """
    body = read_foreign_object(message.data, max_bytes)
    payload = {} if body.get("payload") is None else body["payload"]
    key = (
        _text(body, "idempotency_key", MAX_KEY)
        or _message_id(message.headers)
        or _place_of(message)
    )
    trace, span = _id(body, "trace_id"), _id(body, "span_id")
    if trace is None or span is None:
        instead = _trace_of(message.headers, key)
        trace, span = trace or instead[0], span or instead[1]
    return Envelope(
        idempotency_key=key,
        type=_type(body),
        ts=_ts(body, message),
        trace_id=trace,
        span_id=span,
        payload=payload,
        causation_id=_text(body, "causation_id", MAX_KEY),
        written=_read_written(message.data, payload),
    )


def stored_envelope(content: bytes) -> Envelope:
    """Read what `canonical` wrote."""
    body = load_json(content)
    return Envelope(**body, written=_read_written(content, body["payload"]))


def _read_written(data: bytes, payload: object) -> bytes | None:
    if not may_lose_digits(data):
        return None
    written = dump_json(load_written(data).get("payload"), orjson.OPT_SORT_KEYS)
    return written if written not in (dump_json(payload, orjson.OPT_SORT_KEYS), b"null") else None


def derive_ids(*parts: str) -> tuple[str, str]:
    """Derive an id of 16 bytes and one of 8, as hex: the same parts always give the same two, on
    every Python.
    """
    whole = _FRESH.copy()
    whole.update("\x00".join(parts).encode())
    both = whole.hexdigest()
    return both[:32], both[32:]


def traceparent_of(trace_id: str, span_id: str) -> str | None:
    """The W3C header for a trace and a span; None where the trace has no W3C form."""
    return f"00-{trace_id}-{span_id}-01" if _TRACE.fullmatch(trace_id) else None


def _type(body: Mapping[str, Any]) -> str:
    message_type = _id(body, "type")
    if message_type is None:
        raise missing_field("type", "type")
    return message_type


def _ts(body: Mapping[str, Any], message: Message) -> Ts:
    value = body.get("ts")
    match value:
        case None:
            return first_stored_ms(message)  # a replay says it too
        case bool():
            raise invalid_field("ts", "ts", "a number or a text")
        case int() | float() if _is_bounded(value):
            return value
        case str() if ids.is_opaque(value):
            return value
        case _:
            raise invalid_field(
                "ts",
                "ts",
                (
                    "a number that a double or 64 bits hold, or 1..128 printable ASCII "
                    "characters without spaces"
                ),
            )


def _is_bounded(value: float) -> bool:
    return isfinite(value) if isinstance(value, float) else -(1 << 63) <= value < 1 << 64


def _id(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not ids.is_opaque(value):
        raise invalid_field(name, name, "1..128 printable ASCII characters without spaces")
    return value


def _text(body: Mapping[str, Any], name: str, most: int) -> str | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not _is_key(value, most):
        raise invalid_field(name, name, f"1..{most} printable characters")
    return value


def _is_key(text: str, most: int = MAX_KEY) -> bool:
    return 0 < len(text) <= most and text.isprintable()


def _message_id(headers: Mapping[str, str]) -> str | None:
    value = headers.get(contract.MESSAGE_ID)
    return value if value is not None and _is_key(value) else None


def _place_of(message: Message) -> str:
    return f"{message.stream}:{message.sequence}:{message.stored_ns}"


def _trace_of(headers: Mapping[str, str], key: str) -> tuple[str, str]:
    if (
        contract.TRACEPARENT not in headers
        or (traceparent := contract.traceparent_in(headers)) is None
    ):
        return derive_ids("trace", key)
    _, trace, span, *_ = traceparent.split("-")
    return trace, span
