"""JSON of others, read and written without the loss of a digit
(docs/reference/contracts.md#payload-numbers).

orjson reads a whole number above 64 bits as the nearest double, and refuses what no double holds.
Both are legal JSON:

    load_json       what a Python function gets: whole numbers exactly, every other number as
                    Python's own `json` reads it, a float
    load_written    the same to be written again or to be shown: a number that a float does not hold
                    is a WrittenNumber
    dump_json       whole numbers of any length, a Decimal as its digits, and a WrittenNumber as it
                    stood
    WrittenObject   an object as a Python function gets it, with the text that it was read from

Nearly all JSON holds no such number: then orjson alone reads and writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any, NoReturn

import msgspec
import orjson

_FEW_DIGITS = 15  # a double holds every decimal of so many, but at the ends of its range
_LEAST, _GREATEST = 1e-290, 1e290
_WHOLE_DIGITS = bytes(48 if byte in b"0123456789" else 32 for byte in range(256))
_LONG_WHOLE = b"0" * 19
# each digit and point as 0
_DIGITS = bytes(
    48 if byte in b"0123456789." else 101 if byte in b"eE" else 32 for byte in range(256)
)
_MANY_DIGITS, _LONG_EXPONENT = b"0" * (_FEW_DIGITS + 1), b"0e000"
_LOSSY = re.compile(rb"[0-9]{19}|(?=[0-9.]{16})[0-9]{1,18}(?:\.[0-9]|[eE])|[0-9][eE][+-]?[0-9]{3}")

Read = Callable[[str], float]


class WrittenNumber(float):
    """A number that no float holds: the float next to it, and the text as which it is written
    again.
    """

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> WrittenNumber:
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __getnewargs__(self) -> tuple[str]:  # type: ignore[override]  # a copy is made of the text
        return (self.text,)


class WrittenObject(dict[str, object]):
    """An object as a Python function gets it, which knows the JSON that it was read from."""

    def __init__(self, text: bytes) -> None:
        """Raises ValueError for what is no JSON, TypeError for JSON that is no object."""
        super().__init__(_require_object(load_json(text)))
        self._text = text

    @property
    def text(self) -> bytes | None:
        """None: a value was changed, so it is an object like any other."""
        return self._text if self == load_json(self._text) else None


def load_json(data: bytes) -> Any:
    """Raises ValueError for what is no JSON."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        if not may_lose_digits(data):
            raise
        return _load(data, _read_float)
    return _load(data, _read_float) if _LONG_WHOLE in data.translate(_WHOLE_DIGITS) else value


def require_json(data: bytes) -> None:
    """Raises ValueError for what is no JSON; no number is converted that a double does not hold."""
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        if not may_lose_digits(data):
            raise
        _load(data, _pass_over, _pass_over)


def load_written(data: bytes) -> Any:
    """The same with each WrittenNumber. Raises ValueError."""
    return _load(data, _read_written) if may_lose_digits(data) else orjson.loads(data)


def dump_json(
    value: object, option: int | None = None, default: Callable[[Any], Any] | None = None
) -> bytes:
    """A `msgspec.Raw` is JSON, and stands as it is. Raises TypeError for what JSON cannot say; NaN
    and infinity become null.
    """
    # no function of its own for each value: this is called once a message
    write_other = _write_other if default is None else partial(_write_other, default=default)
    try:
        return orjson.dumps(value, write_other, option)
    except orjson.JSONEncodeError:
        if (prepared := _write_long_numbers(value)) is value:
            raise
        return orjson.dumps(prepared, write_other, option)


def _write_other(other: Any, default: Callable[[Any], Any] | None = None) -> Any:
    if isinstance(other, WrittenNumber):
        return orjson.Fragment(other.text)
    if isinstance(other, Mapping):
        return dict(other)
    if isinstance(other, Decimal) and other.is_finite():
        return orjson.Fragment(str(other))
    if isinstance(other, msgspec.Raw):
        load_json(bytes(other))  # orjson would write what is no JSON, too
        return orjson.Fragment(bytes(other))
    if default is not None:
        return default(other)
    raise TypeError(f"{type(other).__name__} is nothing that JSON can say")


def may_lose_digits(data: bytes) -> bool:
    """Whether a number in it may be one that a double or 64 bits do not hold."""
    digits = data.translate(_DIGITS, b"+-")  # a fraction of what the regular expression takes
    return (_MANY_DIGITS in digits or _LONG_EXPONENT in digits) and _LOSSY.search(data) is not None


def _load(data: bytes, read_decimal: Read, read_whole: Read | None = None) -> Any:
    def read_any_whole(text: str) -> float:
        try:
            return int(text)
        except ValueError:  # more digits than Python reads
            return read_decimal(text)

    try:
        value = json.loads(
            data.decode(),
            parse_int=read_whole or read_any_whole,
            parse_float=read_decimal,
            parse_constant=_refuse,
        )
        if b"\\u" in data:
            dump_json(value)  # json takes half a surrogate pair, which is no text
    except (RecursionError, TypeError) as exc:
        raise ValueError("nested too deep, or text with half a surrogate pair") from exc
    return value


def _pass_over(_: str) -> float:
    return 0


def _read_float(text: str) -> float:
    return float(text)


def _read_written(text: str) -> float:
    value = float(text)
    return value if _is_held(text, value) else WrittenNumber(text)


def _is_held(text: str, value: float) -> bool:
    """Whether the float is the very number; of some that it is, this says no, which only keeps
    their text.
    """
    digits = text.lower().partition("e")[0].replace(".", "").lstrip("-0")
    return (
        repr(value) == text
        or not digits
        or (len(digits) <= _FEW_DIGITS and _LEAST < abs(value) < _GREATEST)
    )


def _write_long_numbers(value: object) -> object:
    """The same value, with each whole number above 64 bits as its text; the value itself, where it
    holds none.
    """
    match value:
        case bool():
            return value
        case int() if not -(1 << 63) <= value < 1 << 64:
            return orjson.Fragment(str(value))
        case dict():
            made = {key: _write_long_numbers(item) for key, item in value.items()}
            return made if any(made[key] is not value[key] for key in made) else value
        case list() | tuple():
            items = [_write_long_numbers(item) for item in value]
            return (
                items
                if any(item is not was for item, was in zip(items, value, strict=True))
                else value
            )
        case _:
            return value


def _require_object(value: object) -> dict[str, object]:
    if type(value) is not dict:
        raise TypeError("it is no JSON object")
    return value


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
