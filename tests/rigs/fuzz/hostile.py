"""Messages that are legal, or nearly: well formed, every number at its extremes, every name about
its limit, every list long.

    hostile_json       a good body as an object, some of its values replaced
    hostile_protobuf   a good protobuf message, some of its fields set
    hostile_headers    headers whose values are names like that

`mutants` damages bytes; what is made here decodes, so it comes as far as what is done with the
values. Most names are new each time: what keeps them grows.
"""

import json
import random
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.message import Message

Rng = random.Random

DAY_MS = 86_400_000
EDGES = (
    0,
    1,
    64,
    100,
    128,
    256,
    1000,
    4096,
    10**9,
    30 * DAY_MS,
    2**31,
    2**32,
    2**53,
    2**63,
    2**64,
    1_700_000_000_000,
    253_402_300_799_999,
)
NUMBERS: tuple[Any, ...] = (
    *(edge + off for edge in EDGES for off in (-1, 0, 1) if edge + off < 2**64),
    *(-edge for edge in EDGES if edge <= 2**63),
    *(
        0.5,
        -0.5,
        -0.0,
        1e-9,
        5e-324,
        1e9 + 0.001,
        1e15,
        1e16,
        9.99e28,
        1e300,
        1.7976931348623157e308,
        2.5,
        1e-300,
    ),
    *(
        orjson.Fragment(text)
        for text in (
            "1e999",
            "-1e999",
            "1" + "0" * 30,
            "9" * 400,
            "9" * 5000,
            "0." + "9" * 5000,
            "1e-400",
            "1E+2",
        )
    ),
    *(
        orjson.Fragment(text)
        for text in (
            "0." + "0" * 40 + "1",
            "1." + "0" * 60,
            "18446744073709551616",
            "NaN",
            "Infinity",
            "-0",
        )
    ),
)
TEXTS = (
    *(
        "",
        "0",
        "1",
        "true",
        "null",
        " ",
        "1.5",
        "1e3",
        "NaN",
        "=HYPERLINK(1)",
        "a.b",
        "a b",
        "*",
        ">",
        "$JS.API.STREAM.DELETE.X",
        "_INBOX.x",
    ),
    *(
        "../../etc/passwd",
        "\x00",
        "\r\n",
        "\x1b[2J",
        "\u202eevil",
        "\ufeff",
        "😀",
        "é",
        "e\u0301",
        "\ud800",
        "success",
        "error",
        "openai",
    ),
    *(
        "2026-11-22T00:00:00Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59.999999-14:00",
        "10m",
        "1e9s",
        "P1D",
        "v1",
        "1.0",
        "2",
    ),
)
ALPHABETS = (
    "x",
    "x",
    "x",
    "a.",
    "é",
    "😀",
    "\\",
    '"',
    "/",
    "\n",
    "-_:",
    "0123456789",
    "[",
    "\u202e",
)
LENGTHS = (1, 2, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1000)
LONG = (10_000, 100_000)  # now and then
COUNTS = (0, 1, 2, 10, 64, 65, 300)
MANY = (5_000, 20_000)


def hostile_json(seed: bytes, rng: Rng) -> bytes:
    """`seed` is a good message; now and then it comes as it is, and always what is no JSON."""
    try:
        root = orjson.loads(seed)
    except orjson.JSONDecodeError:
        return seed
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 6))):
        if places := list(_places(root)):
            holder, at = rng.choice(places)
            holder[at] = value_like(holder[at], rng)
    return written(root)


def hostile_protobuf(seed: Message, rng: Rng) -> bytes:
    sent = type(seed)()
    sent.CopyFrom(seed)
    for _ in range(rng.choice((0, 1, 1, 2, 3, 6))):
        _set(sent, rng.choice(sent.DESCRIPTOR.fields), rng)
    return sent.SerializeToString()


def hostile_headers(seed: Mapping[str, str], rng: Rng) -> Mapping[str, str]:
    if rng.random() < 0.5:
        return seed
    names = (
        *seed,
        "Nats-Msg-Id",
        "tenant_id",
        "trace_id",
        "version",
        "request_id",
        "push_assignment",
        "Accept",
        "Reply-To",
        "deadline_ms",
    )
    return {**seed, **{rng.choice(names): name(rng) for _ in range(rng.choice((1, 1, 2)))}}


def value_like(value: Any, rng: Rng) -> Any:
    """Mostly of the same kind, and at an extreme of it."""
    if rng.random() < 0.1:
        value = rng.choice((None, True, 1, "x", [1], {"a": 1}))
    match value:
        case bool() | None:
            return rng.choice((None, True, False, 0, 1, "true", [], {}))
        case int() | float():
            return rng.choice(NUMBERS)
        case str():
            return name(rng)
        case list():
            return _list(value, rng)
        case dict():
            return _object(value, rng)
    return rng.choice(NUMBERS)


def name(rng: Rng) -> str:
    """A text at or about a limit, and seldom far beyond."""
    if rng.random() < 0.3:
        return rng.choice(TEXTS)
    length = rng.choice(LONG) if rng.random() < 0.003 else rng.choice(LENGTHS)
    return (f"{rng.getrandbits(40):x}" + rng.choice(ALPHABETS) * length)[:length]


def _list(value: list[Any], rng: Rng) -> Any:
    if rng.random() < 0.1:
        return _nested(rng, list_=True)
    one = value[0] if value and rng.random() < 0.7 else rng.choice((*NUMBERS, name(rng), [], {}))
    return [one] * _count(rng)


def _object(value: dict[str, Any], rng: Rng) -> Any:
    match rng.randrange(4):
        case 0:
            return _nested(rng, list_=False)
        case 1:
            return {**value, name(rng): rng.choice((*NUMBERS, name(rng)))}
        case 2:
            one = next(iter(value.values()), 1)
            return {
                **value,
                **{f"{rng.getrandbits(32):x}{number}": one for number in range(_count(rng))},
            }
        case _:
            return {key: inner for key, inner in value.items() if rng.random() < 0.7}


def _nested(rng: Rng, *, list_: bool) -> Any:
    depth = rng.choice((5, 30, 60, 62, 63, 64, 65, 120, 250))
    return orjson.Fragment(
        "[" * depth + "]" * depth if list_ else '{"a":' * depth + "1" + "}" * depth
    )


def _count(rng: Rng) -> int:
    return rng.choice(MANY) if rng.random() < 0.01 else rng.choice(COUNTS)


def _places(root: Any) -> Iterator[tuple[Any, Any]]:
    """Every value of the message, by what holds it; the deeper ones too."""
    waiting = [root]
    while waiting:
        holder = waiting.pop()
        inside = (
            list(holder.items())
            if type(holder) is dict
            else list(enumerate(holder))
            if type(holder) is list
            else []
        )
        for at, value in inside:
            yield holder, at
            waiting.append(value)


def written(root: Any) -> bytes:
    try:
        return orjson.dumps(root)
    except TypeError:  # half of a surrogate pair, which JSON can say and UTF-8 cannot
        return json.dumps(root, default=lambda fragment: None).encode()


def _set(sent: Any, field: Any, rng: Rng) -> None:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        for _ in range(_count(rng)):
            getattr(sent, field.name)[_text(rng)] = _text(rng)
    elif field.is_repeated:
        getattr(sent, field.name).extend([_scalar(field, rng)] * _count(rng))
    elif field.cpp_type == Field.CPPTYPE_MESSAGE:
        inner = getattr(sent, field.name)
        inner.SetInParent()
        _set(inner, rng.choice(inner.DESCRIPTOR.fields), rng)
    else:
        setattr(sent, field.name, _scalar(field, rng))


def _scalar(field: Any, rng: Rng) -> Any:
    match field.cpp_type:
        case Field.CPPTYPE_STRING:
            return _text(rng) if field.type == Field.TYPE_STRING else _text(rng).encode()
        case Field.CPPTYPE_DOUBLE | Field.CPPTYPE_FLOAT:
            return rng.choice(
                (
                    0.0,
                    -0.0,
                    1e9,
                    1e9 + 1,
                    9.99e28,
                    1.7e308,
                    5e-324,
                    float("inf"),
                    float("-inf"),
                    float("nan"),
                    -1.0,
                )
            )
        case Field.CPPTYPE_BOOL:
            return rng.random() < 0.5
        case Field.CPPTYPE_ENUM:
            return rng.choice((0, 1, 2, 2**31 - 1, -(2**31)))
        case Field.CPPTYPE_INT32:
            return rng.choice((0, 1, -1, 2**31 - 1, -(2**31)))
        case Field.CPPTYPE_UINT32:
            return rng.choice((0, 1, 2**32 - 1))
        case Field.CPPTYPE_UINT64:
            return rng.choice((0, 1, 2**53 + 1, 2**64 - 1))
    return rng.choice(
        (0, 1, -1, 30 * DAY_MS, 30 * DAY_MS + 1, 2**53 + 1, 2**63 - 1, -(2**63), 1_700_000_000_000)
    )


def _text(rng: Rng) -> str:
    return name(rng).encode("utf-8", "replace").decode()
