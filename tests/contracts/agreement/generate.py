"""Messages for the comparison of schemas with readers: an example of the contract, changed at random places.

The same seed makes the same messages. About a third of them is legal. What schemas cannot say (docs/messages.md#limits) is not made:
above all a number such as 1.0, which JSON Schema takes for an integer and a reader of integers does not.
"""

import copy
import random
from collections.abc import Iterator, Mapping
from typing import Any

from router.contracts.shapes import MessageShape
from router.contracts.shapes.fields import list_fields

LONG = "x" * 128
VALUES: tuple[Any, ...] = (
    *(None, "", " ", "a b", "x", LONG, LONG + "x", 2 * LONG, 2 * LONG + "x", 4096 * "r", 4097 * "r", "é", "a\n", "\x7f", "~!"),
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
    *("success", "error", "timeout", "cancelled", "accepted", "rejected", "idle", "busy", "ok", "reject", "nats", "exec_result"),
    *("exec_assignment_ack", "caf.exec.assign.v1", "caf.exec.other", "2024-01-15T14:30:00Z", "2024-02-30T14:30:00Z", "yesterday"),
    *(True, False, 0, 1, -1, 2, 0.5, 1.5, -0.5, 1e-9, 60_000, 1_000_000_000, 1_000_000_001, 2_592_000_000, 2_592_000_001),
    *(2**53, 2**63 - 1, 2**63, -(2**63), [], {}, [1], {"type": "chat"}, {"a": {"b": [None]}}),
)
EXTRA_NAMES = ("schema_version", "kind", "data", "unknown")
MAX_CHANGES = 4


def generate(shape: MessageShape, count: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    chance = random.Random(f"{shape.name} {seed}")
    names = sorted({place.rpartition(".")[2] for place in list_fields(shape.body)} | {*EXTRA_NAMES})
    for _ in range(count):
        message = copy.deepcopy(chance.choice(shape.examples))
        for _ in range(chance.randrange(MAX_CHANGES + 1)):
            change(message, names, chance)
        yield message


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
    for inner in value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ():
        yield from _walk_objects(inner)
