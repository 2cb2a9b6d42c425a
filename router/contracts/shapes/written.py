"""Schemas as a file holds them, before they are compared: the parts that they refer to in place,
and each keyword of its own kind.

A file may be anything. What is raised is a ValueError that says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

MAX_DEPTH = 64
# of one file: parts that refer to parts that refer to parts grow beyond all bounds
MAX_VALUES = 1_000_000
WORDS = ("description", "examples")  # for people; a field may have such a name too
_BOUNDS = (
    "maximum",
    "exclusiveMaximum",
    "maxLength",
    "maxItems",
    "minimum",
    "exclusiveMinimum",
    "minLength",
    "minItems",
)


class Definitions:
    """The parts of one file, by name, and how many values may still be put in place."""

    def __init__(self, parts: object) -> None:
        self._parts = _need(parts, Mapping, "the definitions")
        self._left = MAX_VALUES

    def resolve(self, schema: Any, depth: int = 0) -> Any:
        """The schema with the parts that it refers to in place. Raises ValueError."""
        self._left -= 1
        if depth > MAX_DEPTH:
            raise ValueError(f"a schema is nested deeper than {MAX_DEPTH}, or refers to itself")
        if self._left < 0:
            raise ValueError(
                f"with what they refer to, the schemas have more than {MAX_VALUES} values"
            )
        if isinstance(schema, list):
            return [self.resolve(one, depth + 1) for one in schema]
        if not isinstance(schema, Mapping):
            return schema
        reference = schema.get("$ref")
        if isinstance(reference, str):
            part = self.resolve(self._parts.get(reference.rpartition("/")[2], {}), depth + 1)
            return {
                **_need(part, Mapping, reference),
                **{name: value for name, value in schema.items() if name != "$ref"},
            }
        kept = {
            name: value
            for name, value in schema.items()
            if name not in WORDS or isinstance(value, Mapping)
        }
        return {name: self.resolve(value, depth + 1) for name, value in kept.items()}


def check_schema(schema: object, place: str) -> Mapping[str, Any]:
    """The schema, if everything in it that is compared is of its kind. Raises ValueError."""
    checked: Mapping[str, Any] = _need(schema, Mapping, place)
    for name, field in _need(
        checked.get("properties", {}), Mapping, f"{place}: properties"
    ).items():
        check_schema(field, f"{place}.{name}")
    for keyword in ("required", "enum", "oneOf"):
        _need(checked.get(keyword, []), list, f"{place}: {keyword}")
    _need_texts(checked.get("required", []), f"{place}: required")
    types = checked.get("type", "")
    _need_texts(types if isinstance(types, list) else [types], f"{place}: type")
    for keyword in _BOUNDS:
        _need(checked.get(keyword, 0), Real, f"{place}: {keyword}")
    for form in checked.get("oneOf", []):
        check_schema(form, f"{place}: oneOf")
    if "items" in checked:
        check_schema(checked["items"], f"{place}[]")
    return checked


def _need_texts(values: object, place: str) -> None:
    for value in _need(values, list, place):
        _need(value, str, place)


def _need(value: object, kind: type, place: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{place} is not {_KINDS[kind]}")
    return value


_KINDS: Mapping[type, str] = {Mapping: "an object", list: "a list", str: "text", Real: "a number"}
