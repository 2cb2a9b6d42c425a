"""Compare two decide requests by content: without trace fields, and in any order of keys.

Retries often carry a fresh trace id, and some clients write the keys of an object in no fixed order. `is_same` reads both requests,
so it is for requests of one identity whose bytes differ: an ordinary one never comes here.
"""

from __future__ import annotations

import orjson

from router.contracts.codec import text_of
from router.contracts.flow import read_body
from router.contracts.malformed import Malformed
from router.core import ids
from router.core.message import NO_HEADERS

TRACE_FIELDS = frozenset({"trace_id", "span_id", "traceparent", "tracestate"})
_TRACED = frozenset({"message", "metadata", "context"})  # parts that may be traced, beside the top level


def is_same(one: bytes, other: bytes) -> bool:
    """Whether two bodies ask for the same."""
    return one == other or canonical(one) == canonical(other)


def digest(data: bytes) -> str:
    """Equal for bodies that ask for the same."""
    return ids.sha256_hex(canonical(data))


def canonical(data: bytes) -> bytes:
    """The content with its keys in order and without trace fields; bytes that have no such form stand for themselves."""
    try:
        # JSON that was read before needs none of the checks of depth again.
        body = orjson.loads(data) if data[:1] == b"{" else read_body(data, NO_HEADERS, len(data))
        _drop_trace_fields(body)
        return orjson.dumps(body, default=_to_plain, option=orjson.OPT_SORT_KEYS)
    except (Malformed, TypeError, orjson.JSONDecodeError):  # too deep, or an integer above 64 bits: read, and never written
        return data


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
    """A protobuf payload that is no text."""
    if isinstance(value, bytes):
        return text_of(value)
    raise TypeError(type(value).__name__)
