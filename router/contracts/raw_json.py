"""JSON that is passed on as it was written: a payload is its sender's, and not ours to write anew
(docs/reference/contracts.md#payloads).

    {"message": {…, "payload": 18446744073709551616}, "context": {…}}
         read_around_payload ──> the fields as values, the payload as RawJson
         RawJson.read        ──> its value, once it is asked for: integers are exact, other numbers doubles
         write_payload       ──> a value of Python as JSON: integers of any length, a Decimal as its digits, RawJson as it is

What Router reads itself has bounds: `has_long_integer` finds an integer above 64 bits,
`has_endless_number` more digits in a row than a reader takes.
"""

from __future__ import annotations

import json
from collections.abc import Set
from typing import Any, NoReturn

import msgspec
import orjson
from msgspec import Raw, Struct

from router.contracts.codec import (
    MAX_DEPTH,
    MAX_PAYLOAD_BYTES,
    MAX_VALUES,
    UNREADABLE_ERRORS,
    check_limits,
    count_values,
    drop_strings,
    has_digits,
    refuse_json,
    refuse_values,
    write_value,
)
from router.contracts.malformed import SCHEMA_VALIDATION_FAILED, STAGE_DECODE, Malformed

MAX_DIGITS = 4096  # of one number of a payload, in a row: Python reads no integer of more than 4300
DIGITS = f"JSON whose numbers have at most {MAX_DIGITS} digits in a row"
NUMBERS = "an object; its integers have at most 64 bits, its other numbers fit a double"
PAYLOAD = frozenset({"payload"})

LEAST_INTEGER, MOST_INTEGER = -(2**63), 2**64 - 1  # of 64 bits, with a sign or without
OpenedParts = dict[str, Any]  # bytes of a field, or the like of an object that was opened
_NULL = b"null"  # JSON null is absent (docs/reference/contracts.md#absent)
_UNREAD: Any = object()
_read_value = msgspec.json.Decoder().decode
_read_parts = msgspec.json.Decoder(dict[str, Raw]).decode


class RawJson(Struct, eq=False, gc=False):
    """The text of one JSON value, which was read before as far as to know that it is one. Two are
    equal if their bytes are.
    """

    data: bytes
    decoded: Any = _UNREAD  # by `read`, which most requests never need

    @classmethod
    def encode(cls, value: object) -> RawJson:
        """Write a value of Python. Raises TypeError for one that JSON has not."""
        return cls(write_payload(value))

    def read(self) -> Any:
        """The value: integers are exact, a number with a point or an exponent is a float, as
        Python's own `json` reads it.
        """
        if self.decoded is _UNREAD:
            self.decoded = read_json(self.data)
        return self.decoded

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RawJson) and self.data == other.data

    def __hash__(self) -> int:
        return hash(self.data)


NULL = RawJson(b"null")


def read_json(data: bytes) -> Any:
    """The value of a JSON text. Raises ValueError for bytes that are none."""
    try:
        return _read_value(data)
    except UNREADABLE_ERRORS:
        # a number that no double holds: Python says inf
        return json.loads(data, parse_constant=_refuse_constant)


def read_raw(data: bytes) -> RawJson | None:
    """The text as it is written, without the white space around it; None: it is no JSON."""
    try:
        check_text(data)
        return RawJson(bytes(msgspec.json.decode(data, type=Raw)))
    except UNREADABLE_ERRORS:
        return None


def write_payload(value: object) -> bytes:
    """A value as JSON. Raises TypeError for one that JSON has not, ValueError for NaN and infinity."""
    return write_value(value, default=_write_raw)


def prompt_of(payload: RawJson | str) -> str:
    """A payload as the prompt of a provider: text as it is, any other JSON as it is written."""
    if isinstance(payload, str):
        return payload
    return value if isinstance(value := payload.read(), str) else payload.data.decode()


def payload_of(data: bytes) -> RawJson | bytes:
    """Bytes as a payload: text where they are UTF-8, so that equal content is equal whatever wire
    it came by.
    """
    try:
        return RawJson(orjson.dumps(data.decode("utf-8")))
    except UnicodeDecodeError:
        return data


def read_around_payload(
    data: bytes,
    max_bytes: int = MAX_PAYLOAD_BYTES,
    max_depth: int = MAX_DEPTH,
    max_values: int = MAX_VALUES,
    *,
    kept: Set[str] = PAYLOAD,
    opened: Set[str] = frozenset(),
) -> dict[str, Any]:
    """The JSON object in `data`: those of its fields that are `kept`, and of the objects `opened`
    in it, stay as they were written. The others hold `max_values`, which are counted before they
    are parsed.

    Raises Malformed, as `codec.read_object` does. A number that no double holds is no reason: its
    field is RawJson too.
    """
    check_limits(data, max_bytes, max_depth)
    try:
        check_text(data)
        fields = _open(_read_parts(data), kept, opened)
        if len(data) >= max_values and _count_parsed(fields, max_values, kept) > max_values:
            raise refuse_values(max_values)
        return _read_fields(fields, kept)
    except msgspec.ValidationError as exc:
        raise Malformed(
            SCHEMA_VALIDATION_FAILED, "Payload is not a JSON object", STAGE_DECODE
        ) from exc
    except UNREADABLE_ERRORS as exc:
        raise refuse_json(data) from exc


def check_text(data: bytes) -> None:
    """Raises UnicodeDecodeError for bytes that are not UTF-8: msgspec looks at all else of a Raw,
    and not at that.
    """
    data.isascii() or data.decode()


def has_long_integer(value: object) -> bool:
    """Whether a value that was read holds an integer of more than 64 bits."""
    kind = type(value)
    if kind is int:
        return not LEAST_INTEGER <= value <= MOST_INTEGER  # type: ignore[operator]
    if kind is dict:
        return any(map(has_long_integer, value.values()))  # type: ignore[attr-defined]
    return kind is list and any(map(has_long_integer, value))  # type: ignore[call-overload]


def has_endless_number(data: bytes) -> bool:
    """Whether JSON holds more digits in a row than a reader takes."""
    return (
        len(data) > MAX_DIGITS
        and has_digits(data, MAX_DIGITS + 1)
        and has_digits(drop_strings(data), MAX_DIGITS + 1)
    )


def _open(parts: dict[str, Raw], kept: Set[str], opened: Set[str]) -> OpenedParts:
    """The fields, and those of the objects in it that are read field by field."""
    fields: OpenedParts = {}
    for name, raw in parts.items():
        data = bytes(raw)
        is_object = name in opened and name not in kept and data[:1] == b"{"
        fields[name] = _open(_read_parts(data), kept, frozenset()) if is_object else data
    return fields


def _count_parsed(fields: OpenedParts, most: int, kept: Set[str]) -> int:
    """The values of those that are parsed, as `count_values` does."""
    left = most
    for name, data in fields.items():
        if name in kept or left < 0:
            continue
        left -= count_values(data, left) if type(data) is bytes else _count_parsed(data, left, kept)
    return most - left


def _read_fields(fields: OpenedParts, kept: Set[str]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for name, data in fields.items():
        if type(data) is dict:
            body[name] = _read_fields(data, kept)
        elif name in kept:
            body[name] = None if data == _NULL else RawJson(data)
        else:
            body[name] = _read_field(data)
    return body


def _read_field(data: bytes) -> Any:
    try:
        return _read_value(data)
    except UNREADABLE_ERRORS:
        return RawJson(data)


def _write_raw(value: object) -> orjson.Fragment:
    """orjson asks for what it does not know. A user may have made this one of any bytes."""
    if not isinstance(value, RawJson):
        raise TypeError(f"{type(value).__name__} is nothing that JSON has")
    if read_raw(value.data) is None:
        raise TypeError("a RawJson holds bytes that are no JSON")
    return orjson.Fragment(value.data)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
