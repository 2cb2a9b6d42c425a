"""One message of the contract: its name, its schema, its examples; and what the settings decide
about schemas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from router.contracts.shapes.parts import PARTS, Schema, list_parts, name_all_types
from router.contracts.worker import MAX_COST

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DIRECTION = "x-direction"  # in schemas
RECEIVED = "received"  # other programs write it and the router reads it
SENT = "sent"  # the router writes it and other programs read it


class ShapeLimits(Struct, frozen=True, kw_only=True):
    """What a setting decides about a message."""

    max_cost: float = MAX_COST
    assignment_subjects: tuple[str, ...] = ("caf.exec.assign.v1",)


class MessageShape(Struct, frozen=True, kw_only=True):
    """`name` names its file (`decide` is decide.json); `page` is the rule behind it; `examples` are
    whole messages.
    """

    name: str
    title: str
    text: str
    direction: str
    body: Schema
    page: str
    examples: tuple[Any, ...]
    # the protobuf message with the same content: `beamline.flow.v1.RouteRequest`
    proto: str | None = None

    @property
    def schema_id(self) -> str:
        return f"urn:beamline:router:v1:{self.name}"

    def build_schema(self) -> dict[str, Any]:
        """The whole schema, which refers to nothing outside itself."""
        definitions = {name: PARTS[name] for name in list_parts(self.body)}
        return {
            "$schema": DIALECT,
            "$id": self.schema_id,
            "title": self.title,
            "description": f"{self.text} Fields that are not known are ignored. {self.page}",
            DIRECTION: self.direction,
            **name_all_types(self.body),
            "examples": list(self.examples),
            **({"$defs": definitions} if definitions else {}),
        }


_BRANCHES = ("oneOf", "anyOf", "allOf")


def list_fields(schema: Schema) -> dict[str, Schema]:
    """Each field that some form of the message has; of two definitions the first one that says
    something.
    """
    fields: dict[str, Schema] = {}
    for place, field in _walk(schema, ""):
        if not fields.get(place):
            fields[place] = field
    return fields


def list_required(schema: Schema) -> list[str]:
    """The fields that every form of the message has."""
    forms = schema.get("oneOf") or [schema]
    own = [set(schema.get("required", ())) | set(form.get("required", ())) for form in forms]
    return sorted(set.intersection(*own))


def find_unknown(
    message: Mapping[str, Any], known: Mapping[str, Schema], inside: str = ""
) -> Iterator[str]:
    """The places of a message that its schema does not name; what a field holds is not looked at
    where no field of it is named.
    """
    for name, value in message.items():
        place = f"{inside}{name}"
        if place not in known:
            yield place
        elif isinstance(value, dict) and _has_named_fields(place, known):
            yield from find_unknown(value, known, f"{place}.")


def _has_named_fields(place: str, fields: Mapping[str, Schema]) -> bool:
    """Fields of its own, and no others: an object with `additionalProperties` takes any."""
    return "additionalProperties" not in fields[place] and any(
        other.startswith(f"{place}.") for other in fields
    )


def _walk(schema: Schema, inside: str) -> Iterator[tuple[str, Schema]]:
    for name, field in schema.get("properties", {}).items():
        yield f"{inside}{name}", field
        yield from _walk(field, f"{inside}{name}.")
    for keyword in _BRANCHES:
        for branch in schema.get(keyword, ()):
            yield from _walk(branch, inside)
