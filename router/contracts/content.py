"""Compare by content: two decide requests without their trace fields, two payloads; in any order of
keys.

Retries often carry a fresh trace id, and some clients write the keys of an object in no fixed
order. `is_same` reads both requests, so it is for requests of one identity whose bytes differ: an
ordinary one never comes here.

    numbers    that a double or 64 bits hold are equal by value, as 1.0 and 1.00; any other by its
               digits as they are written
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from functools import partial
from math import isfinite
from typing import Any

import orjson

from router.contracts.codec import text_of
from router.contracts.flow import read_body
from router.contracts.malformed import Malformed
from router.contracts.raw_json import LEAST_INTEGER, MOST_INTEGER, RawJson
from router.core import ids
from router.core.message import NO_HEADERS

TRACE_FIELDS = frozenset({"trace_id", "span_id", "traceparent", "tracestate"})
# parts that may be traced, beside the top level
_TRACED = frozenset({"message", "metadata", "context"})

# Fifteen digits, or an exponent of two, are one double: every digit and point as 0, an exponent as
# e, without signs.
_KINDS = bytes(
    48 if byte in b"0123456789." else 101 if byte in b"eE" else 32 for byte in range(256)
)
_MANY_DIGITS, _LARGE_EXPONENT = b"0" * 16, b"e000"


def is_same(one: bytes, other: bytes) -> bool:
    """Whether two bodies ask for the same."""
    return one == other or canonical(one) == canonical(other)


def is_same_payload(one: RawJson | bytes | None, other: RawJson | bytes | None) -> bool:
    """Whether two payloads say the same, however they are written.

    Decimals are compared as doubles: an extension that reads them so and writes them anew has
    changed nothing.
    """
    if one == other or not (type(one) is RawJson and type(other) is RawJson):
        return one == other
    return _write_in_order(one.data) == _write_in_order(other.data)


def digest(data: bytes) -> str:
    """Equal for bodies that ask for the same."""
    return ids.sha256_hex(canonical(data))


def canonical(data: bytes) -> bytes:
    """The content with its keys in order and without trace fields; bytes that have no such form
    stand for themselves.
    """
    try:
        # JSON that was read before needs none of the checks of depth again.
        body = _read(data) if data[:1] == b"{" else read_body(data, NO_HEADERS, len(data))
        _drop_trace_fields(body)
        return _order(body)
    except (Malformed, TypeError, ValueError, RecursionError):
        return data


def _write_in_order(data: bytes) -> bytes:
    try:
        return _order(_read(data, _read_double))
    except (TypeError, ValueError, RecursionError):  # deeper than what can be written
        return data


def _read(data: bytes, read_decimal: Callable[[str], float | orjson.Fragment] | None = None) -> Any:
    """The value, with a Fragment for each number that neither a double nor 64 bits hold."""
    kinds = data.translate(_KINDS, b"+-")
    if _MANY_DIGITS in kinds or _LARGE_EXPONENT in kinds:
        return json.loads(data, parse_int=_read_integer, parse_float=read_decimal or _read_float)
    return orjson.loads(data)


def _read_integer(text: str) -> int | orjson.Fragment:
    is_short = len(text) <= 20
    return (
        value
        if is_short and LEAST_INTEGER <= (value := int(text)) <= MOST_INTEGER
        else orjson.Fragment(text)
    )


def _read_float(text: str) -> float | orjson.Fragment:
    try:
        is_held = Decimal(repr(value := float(text))) == Decimal(text)
    except InvalidOperation:  # an exponent beyond what a Decimal has
        is_held = False
    return value if is_held else orjson.Fragment(text)


def _read_double(text: str) -> float | orjson.Fragment:
    return value if isfinite(value := float(text)) else orjson.Fragment(text)


def _drop_trace_fields(part: dict[str, object]) -> None:
    """In place: what was just read belongs to this call alone."""
    if not TRACE_FIELDS.isdisjoint(part):
        for name in TRACE_FIELDS:
            part.pop(name, None)
    if not _TRACED.isdisjoint(part):
        for name in _TRACED:
            if isinstance(inner := part.get(name), dict):
                _drop_trace_fields(inner)


def _to_plain(value: object) -> object:
    """A payload, which stays as it was written where the body was protobuf, or JSON behind white
    space.
    """
    if isinstance(value, RawJson):
        return _read(value.data)
    if isinstance(value, bytes):
        return text_of(value)
    raise TypeError(type(value).__name__)


# JSON with its keys in order, without a frame of its own
_order = partial(orjson.dumps, default=_to_plain, option=orjson.OPT_SORT_KEYS)
