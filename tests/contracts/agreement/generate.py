"""Messages for the comparison of schemas with readers: an example of the contract, or one drawn
from the schema, changed at random places.

The same seed makes the same messages. About a third of them is legal. What schemas cannot say
(docs/reference/messages.md#limits) is not made: above all a number such as 1.0, which JSON Schema
takes for an integer and a reader of integers does not.
"""

import copy
import random
from collections.abc import Iterator, Mapping
from typing import Any

from router.contracts.shapes.difference import Definitions
from router.contracts.shapes.message_shape import list_fields
from router.contracts.shapes.parts import PARTS
from router.operate.catalogue import MessageShape

LONG = "x" * 128
VALUES: tuple[Any, ...] = (
    *(
        None,
        "",
        " ",
        "a b",
        "x",
        LONG,
        LONG + "x",
        2 * LONG,
        2 * LONG + "x",
        4096 * "r",
        4097 * "r",
        "é",
        "a\n",
        "\x7f",
        "~!",
    ),
    *(
        "acme",
        "_acme",
        ".acme",
        "a:b.c-d_e",
        "1",
        "1.0",
        "v1",
        "v2",
        "true",
        "false",
        "base64",
        "hex",
        "aGVsbG8=",
        "aGVsbG8",
        "====",
        "aa=a",
    ),
    *(
        "success",
        "error",
        "timeout",
        "cancelled",
        "accepted",
        "rejected",
        "idle",
        "busy",
        "ok",
        "reject",
        "nats",
        "exec_result",
    ),
    *(
        "exec_assignment_ack",
        "caf.exec.assign.v1",
        "caf.exec.other",
        "2024-01-15T14:30:00Z",
        "2024-02-30T14:30:00Z",
        "yesterday",
    ),
    *(
        True,
        False,
        0,
        1,
        -1,
        2,
        0.5,
        1.5,
        -0.5,
        1e-9,
        60_000,
        1_000_000_000,
        1_000_000_001,
        2_592_000_000,
        2_592_000_001,
    ),
    *(2**53, 2**63 - 1, 2**63, -(2**63), [], {}, [1], {"type": "chat"}, {"a": {"b": [None]}}),
)
EXTRA_NAMES = ("schema_version", "kind", "data", "unknown")
MAX_CHANGES = 4
DRAWN = 0.3  # of the messages
LEGAL = 0.95  # of their fields
KINDS: Mapping[str, tuple[Any, ...]] = {
    "object": ({}, {"type": "chat"}),
    "array": ([], ["a"]),
    "string": ("acme", "base64", "aGVsbG8=", "1", "2024-01-15T14:30:00Z"),
    "integer": (0, 1, 7),
    "number": (0, 0.5, 7),
    "boolean": (True, False),
    "null": (None,),
}


def generate(shape: MessageShape, count: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    chance = random.Random(f"{shape.name} {seed}")
    names = sorted({place.rpartition(".")[2] for place in list_fields(shape.body)} | {*EXTRA_NAMES})
    fields = {
        place: Definitions(PARTS).resolve(field) for place, field in list_fields(shape.body).items()
    }
    for _ in range(count):
        message = (
            draw(fields, chance)
            if chance.random() < DRAWN
            else copy.deepcopy(chance.choice(shape.examples))
        )
        for _ in range(chance.randrange(MAX_CHANGES + 1)):
            change(message, names, chance)
        yield message


def draw(fields: Mapping[str, Mapping[str, Any]], chance: random.Random) -> dict[str, Any]:
    """Some of the fields that the schema names, most of them with a value that it names."""
    message: dict[str, Any] = {}
    share = chance.choice((0.3, 0.6, 0.9))
    for place, field in fields.items():
        *parents, name = place.split(".")
        part: Any = message
        for parent in parents:
            part = part.get(parent) if isinstance(part, dict) else None
        if isinstance(part, dict) and chance.random() < share:
            part[name] = copy.deepcopy(
                chance.choice(list_legal(field) if chance.random() < LEGAL else VALUES)
            )
    return message


def list_legal(field: Mapping[str, Any]) -> list[Any]:
    """Values of the kinds that a field may have."""
    if "const" in field or "enum" in field:
        return [field["const"]] if "const" in field else list(field["enum"])
    types = field.get("type", list(KINDS))
    return [
        value for kind in ([types] if isinstance(types, str) else types) for value in KINDS[kind]
    ]


def change(message: dict[str, Any], names: list[str], chance: random.Random) -> None:
    """One change: a field is removed, replaced, added, moved to another object or copied there."""
    objects = list(_walk_objects(message))
    part, other = chance.choice(objects), chance.choice(objects)
    name = chance.choice(sorted(part)) if part and chance.random() < 0.6 else chance.choice(names)
    match chance.randrange(6):
        case 0:
            part.pop(name, None)
        case 1 if name in part:
            other[name] = copy.deepcopy(part.pop(name))
        case 2 if name in part:
            other[name] = copy.deepcopy(part[name])
        case _:
            part[name] = copy.deepcopy(chance.choice(VALUES))


def _walk_objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for inner in (
        value.values()
        if isinstance(value, Mapping)
        else value
        if isinstance(value, list | tuple)
        else ()
    ):
        yield from _walk_objects(inner)
