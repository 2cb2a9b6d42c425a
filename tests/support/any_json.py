"""JSON texts of every kind that a sender may write: what travels must arrive as it was sent.

`write_json` draws one text; the same seed draws the same texts. `SAMPLES` names the kinds that JSON
libraries change most often. `read_exactly` returns what a text says without any loss: two texts
that say the same are equal, two numbers that differ in the last of thirty digits are not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from random import Random
from typing import Any

SAMPLES = {
    "2^63": b"9223372036854775808",
    "2^64": b"18446744073709551616",
    "below -2^63": b"-9223372036854775809",
    "thirty digits": b"123456789012345678901234567890",
    "long decimal": b"0.1234567890123456789012345",
    "whole float": b"1.0",
    "minus zero": b"-0",
    "minus zero float": b"-0.0",
    "exponent": b"1E5",
    "exponent with plus": b"1.50e+10",
    "beyond a double": b"1e999",
    "below a double": b"1e-999",
    "escaped letter": b'"\\u00e9"',
    "escaped pair": b'"\\ud83d\\ude00"',
    "escaped slash": b'"a\\/b"',
    "plain letter": '"é 😀 \u2028"'.encode(),
    "duplicate keys": b'{"a":1,"b":2,"a":3}',
    "key order": b'{"z":1,"a":2,"m":{"y":1,"b":2}}',
    "spaces": b'{ "a" : [ 1 , 2.50 ] }',
    "inside": b'{"rows":[{"id":18446744073709551616,"rate":0.1234567890123456789012345}]}',
}

_MOST_DIGITS = 60
_ESCAPES = (r"\u00e9", r"\ud83d\ude00", r"\n", r"\"", r"\\", r"\/", r"\u0041", r"\u0000", r"\b")
_LETTERS = "abcXYZ 019éß漢😀\u2028/{}[],:"
_KEYS = ("id", "a", "b", "z", "a", "rate", "Ünï", "0", "")


def write_json(random: Random, depth: int = 4) -> bytes:
    """Draw one JSON text, nested at most so deep."""
    return _write_value(random, depth).encode()


def write_object(random: Random, depth: int = 4) -> bytes:
    """Draw one JSON object."""
    return _write_object(random, depth).encode()


def iterate_json(
    count: int, seed: int, draw: Callable[[Random], bytes] = write_json
) -> Iterator[bytes]:
    """Yield the samples, then as many drawn texts; of a `draw` of objects, the samples that are
    objects.
    """
    random = Random(seed)
    yield from (
        sample for sample in SAMPLES.values() if draw is write_json or sample.startswith(b"{")
    )
    for _ in range(count):
        yield draw(random)


def read_exactly(data: bytes | str) -> Any:
    """Read the value of a JSON text: whole numbers of any length, decimals as they are written, of
    two equal keys the last.
    """
    return json.loads(data, parse_float=Decimal, parse_constant=_refuse)


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _write_value(random: Random, depth: int) -> str:
    kinds = (_write_number, _write_number, _write_text, _write_word) + (
        (_write_list, _write_object) if depth > 0 else ()
    )
    return random.choice(kinds)(random, depth - 1)


def _write_number(random: Random, _depth: int) -> str:
    digits = "".join(
        random.choices("0123456789", k=random.choice((1, 2, 15, 17, 19, 20, 30, _MOST_DIGITS)))
    )
    whole = digits.lstrip("0") or "0"
    fraction = random.choice(("", "", ".0", ".50", "." + digits))
    exponent = random.choice(("", "", "", "e5", "E+10", "e-7", "E05"))
    return random.choice(("", "-")) + whole + fraction + exponent


def _write_text(random: Random, _depth: int) -> str:
    parts = [
        random.choice(_LETTERS) if random.random() < 0.8 else random.choice(_ESCAPES)
        for _ in range(random.randrange(12))
    ]
    return '"' + "".join(parts) + '"'


def _write_word(random: Random, _depth: int) -> str:
    return random.choice(("true", "false", "null"))


def _write_list(random: Random, depth: int) -> str:
    parts = [_write_value(random, depth) for _ in range(random.randrange(4))]
    return "[" + _pad(random) + ("," + _pad(random)).join(parts) + "]"


def _write_object(random: Random, depth: int) -> str:
    parts = [
        f'"{random.choice(_KEYS)}"{_pad(random)}:{_pad(random)}{_write_value(random, depth)}'
        for _ in range(random.randrange(5))
    ]
    return "{" + _pad(random) + ",".join(parts) + _pad(random) + "}"


def _pad(random: Random) -> str:
    return random.choice(("", "", "", " ", "\n\t"))
