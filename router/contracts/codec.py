"""JSON at the border: limits first, then one object; and how bytes stand in JSON
(docs/reference/contracts.md#encodings).

Which fields an object must have is its reader's to say. int64 is a JSON number; NaN and infinity
are failures; of two equal keys the last one counts.
"""

from __future__ import annotations

import base64
from array import array
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from itertools import accumulate
from math import isfinite
from typing import Any

import msgspec
import orjson

from router.contracts.exact_json import (
    WrittenNumber,
    WrittenObject,
    dump_json,
    load_json,
    require_json,
)
from router.contracts.malformed import (
    PAYLOAD_TOO_LARGE,
    SCHEMA_VALIDATION_FAILED,
    STAGE_DECODE,
    STAGE_SIZE,
    Malformed,
)

MAX_PAYLOAD_BYTES = 1024 * 1024
MAX_DEPTH = 64
MAX_VALUES = 20_000  # beside the payload, which is not parsed
BASE64 = "base64"
BYTE_ORDER_MARKS = {b"\xef\xbb\xbf": "UTF-8", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}

# All that msgspec raises for bytes of a client: text that is not UTF-8 and deep nesting have errors
# of their own.
UNREADABLE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_PEELS = 6
_LEAST_PEEL = 8  # a pass that takes less than this part of the brackets was in vain
# brackets in a row, and what stands for them; then the levels that each takes, down or up
_RUNS = ((b"[" * 16, b"P"), (b"]" * 16, b"p"), (b"[" * 4, b"Q"), (b"]" * 4, b"q"))
_STEPS = bytes.maketrans(b"PQ[]qp", bytes((16, 4, 1, 255, 252, 240)))
LARGE_BODY_BYTES = 16_384  # bytes
# every digit as 0, everything else as a space
_DIGITS = bytes(48 if 48 <= byte <= 57 else 32 for byte in range(256))
LONG_NUMBER = 19  # digits: fewer are within 64 bits
_LONG_DIGITS = b"0" * LONG_NUMBER
_SHORT = 512  # bytes: one look at all of them is cheaper than a look at some before it
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


def read_object(
    data: bytes, max_bytes: int = MAX_PAYLOAD_BYTES, max_depth: int = MAX_DEPTH
) -> dict[str, Any]:
    """The JSON object in `data`. Raises Malformed, with stage `size` or `decode`, before parsing
    where it can.
    """
    value = read_value(data, max_bytes, max_depth)
    if type(value) is not dict:
        raise Malformed(SCHEMA_VALIDATION_FAILED, "Payload is not a JSON object", STAGE_DECODE)
    return value


def read_value(data: bytes, max_bytes: int = MAX_PAYLOAD_BYTES, max_depth: int = MAX_DEPTH) -> Any:
    """The same of any JSON value, where a payload need not be an object."""
    check_limits(data, max_bytes, max_depth)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as exc:
        raise refuse_json(data) from exc


def read_foreign_object(
    data: bytes, max_bytes: int = MAX_PAYLOAD_BYTES, max_depth: int = MAX_DEPTH
) -> dict[str, Any]:
    """`read_object` of what holds a payload that is not ours: its numbers as `exact_json` reads
    them.
    """
    value = read_foreign_value(data, max_bytes, max_depth)
    if type(value) is not dict:
        raise Malformed(SCHEMA_VALIDATION_FAILED, "Payload is not a JSON object", STAGE_DECODE)
    return value


def read_foreign_value(
    data: bytes, max_bytes: int = MAX_PAYLOAD_BYTES, max_depth: int = MAX_DEPTH
) -> Any:
    """`read_value` of a payload that is not ours (`exact_json.load_json`)."""
    check_limits(data, max_bytes, max_depth)
    try:
        return load_json(data)
    except ValueError as exc:
        raise refuse_json(data) from exc


def require_foreign_value(
    data: bytes, max_bytes: int = MAX_PAYLOAD_BYTES, max_depth: int = MAX_DEPTH
) -> None:
    """`read_foreign_value` for the refusal alone."""
    check_limits(data, max_bytes, max_depth)
    try:
        require_json(data)
    except ValueError as exc:
        raise refuse_json(data) from exc


def check_limits(
    data: bytes, max_bytes: int = MAX_PAYLOAD_BYTES, max_depth: int = MAX_DEPTH
) -> None:
    """Raises Malformed for more bytes, or deeper JSON, than is allowed."""
    if len(data) > max_bytes:
        raise oversized_payload(len(data), max_bytes)
    # nearly always; depth cannot exceed the number of openings, and few messages have more than
    # that
    is_small = len(data) < LARGE_BODY_BYTES
    has_more = (
        data.count(b"{") + data.count(b"[") > max_depth
        if is_small
        else _has_more_openings(data, max_depth)
    )
    if has_more and is_deeper(data, max_depth):
        raise Malformed(
            SCHEMA_VALIDATION_FAILED, f"Payload is nested deeper than {max_depth}", STAGE_DECODE
        )


def refuse_values(most: int) -> Malformed:
    return Malformed(
        SCHEMA_VALIDATION_FAILED, f"More than {most} values stand beside the payload", STAGE_DECODE
    )


def refuse_json(data: bytes) -> Malformed:
    """Why bytes are no JSON."""
    return Malformed(
        SCHEMA_VALIDATION_FAILED,
        f"Payload {describe_mark(data) or 'is not valid JSON'}",
        STAGE_DECODE,
    )


def describe_mark(data: bytes) -> str | None:
    """What to say of bytes with a byte order mark: an editor shows no sign of it, and the rest
    reads well. None: they have none.
    """
    mark = next((name for mark, name in BYTE_ORDER_MARKS.items() if data.startswith(mark)), None)
    return (
        f"begins with a byte order mark (BOM) of {mark}; JSON is UTF-8 without one"
        if mark is not None
        else None
    )


def describe_unreadable(data: bytes, exc: Exception) -> str:
    """Why these bytes cannot be read: their byte order mark, else the decoder's own words."""
    mark = describe_mark(data)
    return str(exc) if mark is None else f"it {mark}"


def write_value(
    value: object, option: int | None = None, default: Callable[[Any], Any] | None = None
) -> bytes:
    """A value as JSON, whole numbers of any length. Raises TypeError for one that is none,
    ValueError for NaN and infinity, which orjson writes as null. `default`: for what
    `exact_json.dump_json` does not know.
    """
    data = dump_json(value, option, default)
    if b"null" in data and not is_finite(value):
        raise ValueError("NaN and infinity are no JSON")
    return data


def write_object(value: Mapping[str, object]) -> bytes:
    """An object as JSON, one that was read as it stood. Raises as `write_value` does."""
    text = value.text if isinstance(value, WrittenObject) else None
    return write_value(value) if text is None else text


def _has_more_openings(data: bytes, most: int) -> bool:
    """Of a large message: to count all openings of a megabyte takes as long as to parse it; to find
    the first few does not.
    """
    for opening in (b"{", b"["):
        at = data.find(opening)
        while at >= 0:
            most -= 1
            if most < 0:
                return True
            at = data.find(opening, at + 1)
    return False


def oversized_payload(size: int, max_bytes: int) -> Malformed:
    return Malformed(
        PAYLOAD_TOO_LARGE, f"Payload of {size} bytes is larger than {max_bytes}", STAGE_SIZE
    )


def is_deeper(data: bytes, max_depth: int) -> bool:
    """Whether JSON nests deeper than `max_depth`; of bytes that are no JSON nothing is promised."""
    if data.count(b"{") + data.count(b"[") <= max_depth:
        return False
    brackets = drop_strings(data).translate(_ONE_KIND, _NOT_BRACKETS)
    left = max_depth
    # One level of leaves a time, at the speed of C: of most JSON nothing is left. Of towers each
    # takes little, and the pass below is one for all levels.
    for _ in range(min(_PEELS, max_depth)):
        peeled = brackets.replace(b"[]", b"")
        if (len(brackets) - len(peeled)) * _LEAST_PEEL < len(brackets):
            break
        brackets, left = peeled, left - 1
    if b"[" * (left + 1) in brackets:
        return True
    # A run of openings is deepest at its end, so some of them may be one step.
    for run, step in _RUNS:
        brackets = brackets.replace(run, step)
    return max(accumulate(array("b", brackets.translate(_STEPS))), default=0) > left


def count_values(data: bytes, most: int) -> int:
    """The values in JSON, its objects' keys not counted. Up to `most` there are no more than the
    number says, and above it no less.
    """
    count = _count_marks(data)
    if count <= most:
        return count
    # Each key has a value, and to count keys costs less than to read them.
    least = data.count(b'":') - data.count(b'\\":') + 1
    return least if least > most else _count_marks(drop_strings(data))


def _count_marks(data: bytes) -> int:
    """A value follows each comma and stands in each bracket; an empty one counts as one more."""
    return 1 + data.count(b",") + data.count(b"[") + data.count(b"{")


def may_hold_long_number(data: bytes) -> bool:
    """Whether it holds so many digits in a row that an integer may have more than 64 bits."""
    # `has_digits` in place: once a request.
    return (
        len(data) < _SHORT or b"0" in data[::LONG_NUMBER].translate(_DIGITS)
    ) and _LONG_DIGITS in data.translate(_DIGITS)


def has_digits(data: bytes, count: int) -> bool:
    """Whether it holds so many digits in a row: they cover one of every `count` bytes, and of a
    text mostly none of those is a digit.
    """
    return b"0" in data[::count].translate(_DIGITS) and b"0" * count in data.translate(_DIGITS)


def drop_strings(data: bytes) -> bytes:
    """JSON without its strings; of bytes that are no JSON nothing is promised."""
    if b"\\" in data:
        # A quote that stands in a string ends none. Two backslashes are one that is no escape.
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(data.split(b'"')[::2])


def check_numbers(data: bytes, value: object) -> None:
    """`value` is what msgspec read of `data`. Raises ValueError for an integer above 64 bits: it is
    read, and could never be written.
    """
    if not may_hold_long_number(data):
        return
    try:
        orjson.dumps(msgspec.to_builtins(value))
    except TypeError as exc:
        raise ValueError("an integer has more than 64 bits") from exc


def text_of(data: bytes) -> tuple[str, str | None]:
    """Bytes as JSON text and the `payload_encoding` that must stand beside it: None for UTF-8, else
    base64.
    """
    try:
        return data.decode("utf-8"), None
    except UnicodeDecodeError:
        return base64.b64encode(data).decode("ascii"), BASE64


def value_of(data: bytes) -> str | bytes:
    """Bytes as a payload: text where they are UTF-8, so that equal content is equal whatever wire
    it came by.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data


def bytes_of(text: str, payload_encoding: str | None = None) -> bytes:
    """JSON text as bytes: the inverse of `text_of`. Raises ValueError for text that is not what its
    encoding says.
    """
    if payload_encoding is None:
        return text.encode("utf-8")
    if payload_encoding != BASE64:
        raise ValueError(f"payload_encoding must be {BASE64} or absent")
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as exc:  # binascii.Error, or text beyond ASCII
        raise ValueError("not base64") from exc


def is_finite(value: object) -> bool:
    """Of a value that orjson has written, so it is no deeper than orjson allows."""
    if isinstance(value, float):
        return isfinite(value) or isinstance(value, WrittenNumber)
    if isinstance(value, dict):
        return all(map(is_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(is_finite, value))
    if isinstance(value, Enum):
        return is_finite(value.value)
    if is_dataclass(value):
        return all(is_finite(getattr(value, field.name)) for field in fields(value))
    return True
