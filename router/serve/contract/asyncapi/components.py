"""Messages and schemas as AsyncAPI holds them: each once, under `components`, and referred to from there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from router.contracts.shapes.header_shape import build_headers_schema
from router.contracts.shapes.message_shape import DIRECTION
from router.contracts.shapes.parts import PARTS, name_all_types
from router.operate.catalogue import MessageShape

JSON = "application/json"
HEADERS = "contract-headers"
_DEFINITIONS, _SCHEMAS = "#/$defs/", "#/components/schemas/"


def build_components(
    shapes: Mapping[str, MessageShape], services: Mapping[str, Mapping[str, Any]], with_headers: Collection[str]
) -> dict[str, Any]:
    """`services`: the schemas of operators' services, by the name of their message; `with_headers`: messages that carry the headers."""
    schemas: dict[str, Any] = {f"part-{name}": PARTS[name] for name in sorted(PARTS)}
    schemas |= {name: _build_schema(shape) for name, shape in shapes.items()}
    schemas |= {HEADERS: build_headers_schema(), **services}
    messages = {name: _build_message(shape, name in with_headers) for name, shape in shapes.items()}
    messages |= {name: {"name": name, "contentType": JSON, "payload": _refer(name)} for name in services}
    return {"messages": messages, "schemas": {name: move_references(schema) for name, schema in schemas.items()}}


def move_references(schema: Any) -> Any:
    """The schema with its parts under `components`."""
    if isinstance(schema, Mapping):
        return {name: _move(value) if name == "$ref" else move_references(value) for name, value in schema.items()}
    return [move_references(one) for one in schema] if isinstance(schema, list | tuple) else schema


def _build_message(shape: MessageShape, has_headers: bool) -> dict[str, Any]:
    examples = [{"name": f"{shape.name}-{place}", "payload": example} for place, example in enumerate(shape.examples, 1)]
    return {
        "name": shape.name,
        "title": shape.title,
        "summary": shape.text,
        "contentType": JSON,
        **({"headers": _refer(HEADERS)} if has_headers else {}),
        "payload": _refer(shape.name),
        "examples": examples,
        **({"x-protobuf": shape.proto} if shape.proto else {}),
    }


def _build_schema(shape: MessageShape) -> dict[str, Any]:
    return {"title": shape.title, "description": shape.text, DIRECTION: shape.direction, **name_all_types(shape.body)}


def _refer(name: str) -> dict[str, str]:
    return {"$ref": f"{_SCHEMAS}{name}"}


def _move(reference: object) -> object:
    return f"{_SCHEMAS}part-{reference.removeprefix(_DEFINITIONS)}" if isinstance(reference, str) else reference
