"""Precedence in JSON Schema: the same field may stand in several places, and the first place that
has it counts.

    find_first((("tenant_id",), ("message", "tenant_id")), schema)

says of the first of these places that holds a value that it must match `schema`; the places after
it are not looked at, as the reader does not look at them (docs/reference/contracts.md#fields). A
place is a path from the top of the message.
"""

from __future__ import annotations

from collections.abc import Sequence

from router.contracts.shapes.parts import Schema

Path = tuple[str, ...]

NULL: tuple[object, ...] = (None,)
NULL_OR_EMPTY: tuple[object, ...] = (None, "")
NEVER: Schema = {"not": {}}
ALWAYS: Schema = {}


def find_first(
    places: Sequence[Path],
    schema: Schema,
    *,
    absent: Sequence[object] = NULL_OR_EMPTY,
    otherwise: Schema = ALWAYS,
) -> Schema:
    """The first place with a value matches `schema`; `otherwise` holds where no place has one.
    NEVER: the field is required.
    """
    rule = otherwise
    for place in reversed(places):
        rule = {
            "if": is_present(place, absent),
            "then": constrain(place, schema),
            **({"else": rule} if rule else {}),
        }
    return rule


def is_present(place: Path, absent: Sequence[object] = NULL_OR_EMPTY) -> Schema:
    """The place is there and holds a value."""
    return _require(place, {"not": {"enum": list(absent)}})


def is_anywhere_present(places: Sequence[Path], absent: Sequence[object] = NULL_OR_EMPTY) -> Schema:
    """One of the places holds a value."""
    return {"anyOf": [is_present(place, absent) for place in places]}


def constrain(place: Path, schema: Schema) -> Schema:
    """What stands at the place, if anything does, matches the schema."""
    for name in reversed(place):
        schema = {"properties": {name: schema}}
    return schema


def _require(place: Path, schema: Schema) -> Schema:
    for name in reversed(place):
        schema = {"type": "object", "required": [name], "properties": {name: schema}}
    return schema
