"""Good messages, damaged: blindly (bits, cuts, splices) and by their structure (types, names,
numbers, depth, duplicate keys).
"""

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

from router.delivery.wire.connection import head_of
from router.delivery.wire.frames import parse_head

Rng = random.Random
NOTHING: Mapping[str, str] = {}

ODD_VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2**31,
        2**53 + 1,
        2**63,
        -(2**63) - 1,
        2**64,
        10**30,
        0.1,
        -0.0,
        1e308,
        1e-320,
    ),
    *(
        "",
        " ",
        "a b",
        "*",
        ">",
        "a.*",
        "../..",
        "x" * 300,
        "\x00",
        "\r\nX: y",
        "\u2028",
        "é",
        "😀",
        "NaN",
        "base64",
        "2",
        "v1",
        "-1",
        "1e999",
    ),
    *(
        [],
        {},
        [[]],
        {"": ""},
        [None],
        {"a": {"b": [1, {"c": None}]}},
        ["x"] * 70,
        {"var": "context.a"},
    ),
)
ODD_TEXTS = (  # what no JSON library writes by itself
    *(
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"1e999",
        b"-0",
        b"00",
        b"1" * 400,
        b"0." + b"1" * 400,
        b'"\\ud800"',
        b'"\\udc00\\ud800"',
    ),
    *(
        b'"\\u0000"',
        b'"\xff\xfe"',
        b"\xef\xbb\xbf{}",
        b"'a'",
        b"tru",
        b'{"a":1,"a":2}',
        b"[1,]",
        b"/**/1",
        b'"\xed\xa0\x80"',
    ),
)
ODD_HEADERS = (
    "",
    "2",
    "v1",
    "not an id",
    "x" * 400,
    "*",
    ">",
    "00-" + "0" * 32 + "-" + "0" * 16 + "-00",
    "\udce9",
    "a\x00b",
    "é",
    "cp3",
    "-1",
)
HEADER_NAMES = (
    "Nats-Msg-Id",
    "tenant_id",
    "trace_id",
    "version",
    "traceparent",
    "cp_phase",
    "Accept",
    "Reply-To",
    "x",
    "Event-Type",
    "Status",
)


def mutant(seed: bytes, rng: Rng) -> bytes:
    """One or a few damages; now and then the seed as it is."""
    data = seed
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 5))):
        data = rng.choice(DAMAGES)(data, rng)
    return data


def odd_headers(seed: Mapping[str, str], rng: Rng) -> Mapping[str, str]:
    """Headers as the wire brings them: now and then the block itself is damaged."""
    headers = dict(seed)
    for _ in range(rng.choice((0, 0, 1, 2))):
        headers[rng.choice(HEADER_NAMES)] = rng.choice(ODD_HEADERS)
    if rng.random() < 0.1:
        return parse_head(blind(head_of({**headers, "a": "b"}), rng)) or NOTHING
    return headers


def blind(data: bytes, rng: Rng) -> bytes:
    if not data:
        return rng.randbytes(rng.randrange(8))
    at = rng.randrange(len(data))
    match rng.randrange(5):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
        case 2:
            return data[:at] + rng.randbytes(rng.randrange(1, 5)) + data[at:]
        case 3:
            end = min(len(data), at + rng.randrange(1, 30))
            return data[:at] + data[at:end] * rng.randrange(2, 5) + data[end:]
        case _:
            return data[:at] + data[min(len(data), at + rng.randrange(1, 30)) :]


def _odd_text(data: bytes, rng: Rng) -> bytes:
    """In the place of a number, a text or a literal, wherever one ends."""
    begin = data.find(rng.choice((b":", b",", b"[")), rng.randrange(len(data) or 1)) + 1
    end = min(
        (found for byte in b",}]" if (found := data.find(bytes([byte]), begin)) >= 0),
        default=len(data),
    )
    return data[:begin] + rng.choice(ODD_TEXTS) + data[end:]


def _deep(data: bytes, rng: Rng) -> bytes:
    depth = rng.choice((3, 63, 64, 65, 130, 260, 1100, 3000))
    one = rng.choice(((b"[", b"]"), (b'{"a":', b"}"), (b'{"payload":', b"}"), (b"[[", b"]]")))
    at = data.find(b":", rng.randrange(max(1, len(data)))) + 1
    return data[:at] + one[0] * depth + b"1" + one[1] * depth + data[at:]


def _deep_inside(data: bytes, rng: Rng) -> bytes:
    """Whole and well formed: one value stands so deep."""
    depth = rng.choice((30, 62, 66, 130, 260, 900))
    inner = b"[" * depth + b"1" + b"]" * depth
    return _at_value(data, rng, lambda _: _Raw(inner))


def _other_type(data: bytes, rng: Rng) -> bytes:
    return _at_value(data, rng, lambda _: rng.choice(ODD_VALUES))


def _without(data: bytes, rng: Rng) -> bytes:
    return _at_value(data, rng, lambda _: _GONE)


def _twice(data: bytes, rng: Rng) -> bytes:
    """A key that stands there twice."""
    if not data.startswith(b"{") or len(data) < 3:
        return data
    name = rng.choice([*_names(data), "tenant_id", "payload"])
    return (
        b"{"
        + json.dumps(name).encode()
        + b":"
        + json.dumps(rng.choice(ODD_VALUES)).encode()
        + b","
        + data[1:]
    )


def _renamed(data: bytes, rng: Rng) -> bytes:
    """One name stands where another was: what is valid there is not here."""
    names = _names(data)
    if len(names) < 2:
        return data
    one, other = rng.sample(names, 2)
    return data.replace(json.dumps(one).encode() + b":", json.dumps(other).encode() + b":")


DAMAGES: tuple[Callable[[bytes, Rng], bytes], ...] = (
    *(
        blind,
        blind,
        blind,
        _odd_text,
        _odd_text,
        _deep,
        _deep_inside,
        _other_type,
        _other_type,
        _other_type,
    ),
    *(_without, _twice, _renamed),
)


class _Raw:
    """JSON as it stands."""

    def __init__(self, text: bytes) -> None:
        self.text = text


_GONE = object()
_HOLE = "\ufffdhole\ufffd"


def _at_value(data: bytes, rng: Rng, change: Callable[[Any], Any]) -> bytes:
    """With one value changed, if these bytes are still JSON."""
    try:
        root = json.loads(data)
    except (ValueError, RecursionError):
        return blind(data, rng)
    places = list(_places(root))
    if not places:
        return json.dumps(rng.choice(ODD_VALUES)).encode()
    holder, at = rng.choice(places)
    put = change(holder[at])
    if put is _GONE:
        del holder[at]
    else:
        holder[at] = _HOLE if isinstance(put, _Raw) else put
    try:
        text = json.dumps(root).encode()
    except (ValueError, RecursionError):
        return data
    return text.replace(json.dumps(_HOLE).encode(), put.text, 1) if isinstance(put, _Raw) else text


def _places(root: Any) -> "list[tuple[Any, Any]]":
    found: list[tuple[Any, Any]] = []
    waiting = [root]
    while waiting and len(found) < 100:
        one = waiting.pop()
        inside = (
            list(one.items())
            if isinstance(one, dict)
            else list(enumerate(one))
            if isinstance(one, list)
            else []
        )
        for at, value in inside:
            found.append((one, at))
            waiting.append(value)
    return found


def _names(data: bytes) -> list[str]:
    try:
        root = json.loads(data)
    except (ValueError, RecursionError):
        return []
    return sorted({at for _, at in _places(root) if isinstance(at, str)})
