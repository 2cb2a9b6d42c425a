"""Canonical JSON (RFC 8785): equal values have equal bytes in every implementation, so their hashes
are equal too.

    keys       by their UTF-16 code units
    strings    only what must be escaped is, in the shortest form
    numbers    as ECMAScript writes the nearest double: 1e21, 1e-7, never 1.0 or -0

An integer beyond 2**53 is written as the double next to it, as every implementation does that reads
JSON numbers as the RFC says. So two such integers may have the same bytes: what must differ needs
an id beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from math import isfinite

import orjson

_EXPONENT_FROM = 21  # ECMAScript writes an exponent from 1e21 on, and below 1e-6
_ZEROS_AT_MOST = 5


def canonical_json(value: object) -> bytes:
    """`value`: what JSON can say. Raises ValueError for anything else: NaN, infinity, a lone
    surrogate, a key that is no text.
    """
    try:
        return _text(value).encode("utf-8")
    except RecursionError as exc:
        raise ValueError("nested too deep to be written as JSON") from exc


def canonical_number(number: float) -> str:
    """A finite number as ECMAScript writes it (RFC 8785, 3.2.2.3)."""
    double = _to_double(number)
    if double == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(double)).normalize().as_tuple()
    return ("-" if sign else "") + _place_point("".join(map(str, digits)), int(exponent))


def _text(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _string(value)
        case int() | float():
            return canonical_number(value)
        case Mapping():
            return (
                "{"
                + ",".join(
                    f"{_string(key)}:{_text(value[key])}" for key in sorted(value, key=_utf16)
                )
                + "}"
            )
        case Sequence() if not isinstance(value, bytes | bytearray):
            return "[" + ",".join(map(_text, value)) + "]"
        case _:
            raise ValueError(f"{type(value).__name__} is nothing that JSON can say")


def _string(text: object) -> str:
    try:
        return orjson.dumps(_key(text)).decode()
    except orjson.JSONEncodeError as exc:
        raise ValueError("text with a lone surrogate is no JSON") from exc


def _utf16(key: object) -> bytes:
    return _key(key).encode("utf-16-be", "surrogatepass")


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise ValueError("a key that is no text is no JSON")
    return key


def _to_double(number: float) -> float:
    try:
        double = float(number)
    except OverflowError:
        double = float("inf")
    if not isfinite(double):
        raise ValueError("a number that no finite double holds is no JSON")
    return double


def _place_point(digits: str, exponent: int) -> str:
    """The digits with their decimal point: their value is digits x 10**exponent, without zeros at
    the end.
    """
    point = len(digits) + exponent
    if len(digits) <= point <= _EXPONENT_FROM:
        return digits + "0" * exponent
    if 0 < point <= _EXPONENT_FROM:
        return f"{digits[:point]}.{digits[point:]}"
    if -_ZEROS_AT_MOST <= point <= 0:
        return "0." + "0" * -point + digits
    mantissa = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
    return f"{mantissa}e{point - 1:+d}"
