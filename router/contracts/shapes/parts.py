"""The parts that schemas share: one definition for each kind of value, made of the constants that
the readers use; and the rule for a field that may stand in several places.

    PARTS        name -> JSON Schema; a schema refers to one by `refer("id")`, and gets a copy of it
                 under `$defs`
    optional_*   null and an empty string are absent there, as for the reader
                 (docs/reference/contracts.md#absent)

The Struct that the router writes is its message's declaration: its fields say their schemas.
`build_written` reads them.

Patterns use only what ECMA-262, RE2, Rust and Python share: no look-around, anchors at both ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from router.contracts.decision import RESERVED, RESERVED_TYPES
from router.contracts.envelope import UTC_PATTERN
from router.contracts.field_readers import MAX_INT64, OPAQUE, SCOPED
from router.contracts.headers import SUPPORTED_VERSIONS
from router.core import ids

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer", "minimum": 0}

_REFERENCE = "#/$defs/"
_SUBJECT_NAME = "1..64 of A-Z a-z 0-9 _ -"
_ABSENT = "null and an empty string are absent"
_RESERVED = {"enum": sorted(RESERVED_TYPES)}
_TYPE = f"text of 1..{ids.MAX_TYPE} characters, {RESERVED}"

PARTS: Mapping[str, Schema] = {
    "id": {"type": "string", "pattern": f"^{ids.OPAQUE_PATTERN}$", "description": OPAQUE},
    "optional_id": {
        "type": ["string", "null"],
        "pattern": f"^({ids.OPAQUE_PATTERN})?$",
        "description": f"{OPAQUE}; {_ABSENT}",
    },
    "scoped_id": {"type": "string", "pattern": f"^{ids.SCOPED_PATTERN}$", "description": SCOPED},
    "optional_scoped_id": {
        "type": ["string", "null"],
        "pattern": f"^({ids.SCOPED_PATTERN})?$",
        "description": f"{SCOPED}; {_ABSENT}",
    },
    "token": {"type": "string", "pattern": f"^{ids.NAME_PATTERN}$", "description": _SUBJECT_NAME},
    "type": {
        "type": "string",
        "minLength": 1,
        "maxLength": ids.MAX_TYPE,
        "not": _RESERVED,
        "description": _TYPE,
    },
    "optional_type": {
        "type": ["string", "null"],
        "maxLength": ids.MAX_TYPE,
        "not": _RESERVED,
        "description": f"{_TYPE}; {_ABSENT}",
    },
    "optional_name": {
        "type": ["string", "null"],
        "maxLength": ids.MAX_NAME,
        "description": f"text of 1..{ids.MAX_NAME} characters; {_ABSENT}",
    },
    "version": {
        "enum": sorted(SUPPORTED_VERSIONS),
        "description": 'the version: "1", or "1.0" or "v1" which read as it',
    },
    "object": {"type": ["object", "null"], "description": "an object; null is absent"},
    "strings": {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "text by name",
    },
    "base64": {
        "type": "string",
        "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
        "description": "base64 with its padding",
    },
    "whole": {
        "type": "integer",
        "minimum": 0,
        "maximum": MAX_INT64,
        "description": "a whole number, 0 or more",
    },
    "rounded": {
        "type": ["number", "null"],
        "minimum": 0,
        "maximum": MAX_INT64,
        "description": "a number, 0 or more; it is rounded half up",
    },
}


_ROUNDED: Schema = {"type": "number", "minimum": 0, "maximum": MAX_INT64}
UTC_TIME: Schema = {
    "type": "string",
    "pattern": f"^{UTC_PATTERN}$",
    "description": "ISO 8601 in UTC, like 2024-01-15T14:30:00Z",
}
# a reader knows more forms of ISO 8601
MOMENT: Schema = {"anyOf": [_ROUNDED, UTC_TIME, {"type": "null"}]}


def refer(name: str) -> Schema:
    """A reference to one of PARTS."""
    return {"$ref": _REFERENCE + name}


def add_description(schema: Schema, text: str) -> Schema:
    """The schema with these words about one field."""
    return {**schema, "description": text}


def build_object(
    properties: Mapping[str, Schema], required: Sequence[str] = (), **more: Any
) -> dict[str, Any]:
    """An object with these fields; fields that are not known are ignored, as everywhere."""
    return {
        "type": "object",
        **({"required": list(required)} if required else {}),
        "properties": dict(properties),
        **more,
    }


_ANY = ["array", "boolean", "null", "number", "object", "string"]
_WORDS = frozenset({"description", "not"})  # a field with these alone may be of any type


def name_all_types(schema: Schema) -> dict[str, Any]:
    """The same schema, where each field that may be of any type says so: makers of types take a
    field without one for an object.
    """
    named = dict(schema)
    if "properties" in schema:
        named["properties"] = {
            name: _name_types_of(field) for name, field in schema["properties"].items()
        }
    if "oneOf" in schema:
        named["oneOf"] = [name_all_types(form) for form in schema["oneOf"]]
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), Mapping):
            named[inner] = _name_types_of(schema[inner])
    return named


def _name_types_of(field: Schema) -> Schema:
    return {**field, "type": _ANY} if field.keys() <= _WORDS else name_all_types(field)


def build_written(made: type[Struct], **more: Any) -> dict[str, Any]:
    """The schema of a Struct that the router writes. Each field says its schema, and in what words:

        latency_ms: Annotated[int, WHOLE, "as the router measured it"] = 0

    Left out are only None, and with `omit_defaults` each default: all other fields are required.
    """
    config = made.__struct_config__
    properties: dict[str, Schema] = {}
    if config.tag_field is not None:
        properties[config.tag_field] = {"const": config.tag}
    required = [*properties]
    for field in fields(made):
        schema, *texts = field.type.__metadata__
        properties[field.encode_name] = add_description(schema, *texts) if texts else schema
        if field.required or (field.default is not None and not config.omit_defaults):
            required.append(field.encode_name)
    return build_object(properties, required, **more)


def build_from_type(wire: type[Struct]) -> dict[str, Any]:
    """The schema of a type that a reader decodes, its parts in place; `Any` is any JSON value."""
    made = msgspec.json.schema(wire, schema_hook=lambda _: {})
    return _inline(made, made["$defs"])  # type: ignore[no-any-return]  # an object stays one


def _inline(schema: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_inline(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return _inline(definitions[reference.removeprefix(_REFERENCE)], definitions)
    return {
        name: _inline(value, definitions)
        for name, value in schema.items()
        if name not in ("$defs", "title", "default")
    }


def list_parts(schema: object) -> list[str]:
    """The names of the PARTS that a schema refers to, in order."""
    return sorted(set(_walk_references(schema)))


def _walk_references(schema: object) -> Iterator[str]:
    if isinstance(schema, Mapping):
        reference = schema.get("$ref")
        if isinstance(reference, str):
            yield reference.removeprefix(_REFERENCE)
        for value in schema.values():
            yield from _walk_references(value)
    elif isinstance(schema, list | tuple):
        for value in schema:
            yield from _walk_references(value)


# -- Precedence in JSON Schema: the same field may stand in several places, and the first place
# that has it counts.
#
#     find_first((("tenant_id",), ("message", "tenant_id")), schema)
#
# says of the first of these places that holds a value that it must match `schema`; the places after
# it are not looked at, as the reader does not look at them (docs/reference/contracts.md#fields). A
# place is a path from the top of the message.


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
