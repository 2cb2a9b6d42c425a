"""The fields that a schema names, by their place in the message: `message.tenant_id`, `job.type`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from router.contracts.shapes.parts import Schema

_BRANCHES = ("oneOf", "anyOf", "allOf")


def list_fields(schema: Schema) -> dict[str, Schema]:
    """Each field that some form of the message has; of two definitions the first one that says
    something.
    """
    found: dict[str, Schema] = {}
    for place, field in _walk(schema, ""):
        if not found.get(place):
            found[place] = field
    return found


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


def _has_named_fields(place: str, known: Mapping[str, Schema]) -> bool:
    """Fields of its own, and no others: an object with `additionalProperties` takes any."""
    return "additionalProperties" not in known[place] and any(
        one.startswith(f"{place}.") for one in known
    )


def _walk(schema: Schema, inside: str) -> Iterator[tuple[str, Schema]]:
    for name, field in schema.get("properties", {}).items():
        yield f"{inside}{name}", field
        yield from _walk(field, f"{inside}{name}.")
    for keyword in _BRANCHES:
        for branch in schema.get(keyword, ()):
            yield from _walk(branch, inside)
