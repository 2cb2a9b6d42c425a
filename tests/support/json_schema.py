"""As much of JSON Schema as the envelope needs: what the validator of another language says of a
value.
"""

import re
from collections.abc import Mapping
from typing import Any

KINDS: Mapping[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "null": type(None),
    "boolean": bool,
}
KNOWN = {
    "type",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "anyOf",
    "properties",
    "required",
    "additionalProperties",
}
SAID_ONLY = {"$schema", "$id", "title", "description", "default", "format"}


def is_valid(value: object, schema: Mapping[str, Any]) -> bool:
    """Fails for a keyword that it does not know: a schema must not be believed in part."""
    assert set(schema) <= KNOWN | SAID_ONLY, set(schema) - KNOWN - SAID_ONLY
    if "anyOf" in schema and not any(is_valid(value, option) for option in schema["anyOf"]):
        return False
    if "type" in schema and not isinstance(value, KINDS[schema["type"]]):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if isinstance(value, str):
        is_as_long = schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
        return is_as_long and re.search(schema.get("pattern", ""), value) is not None
    if isinstance(value, dict):
        return _is_valid_object(value, schema)
    return True


def _is_valid_object(value: Mapping[str, object], schema: Mapping[str, Any]) -> bool:
    properties = schema.get("properties", {})
    if not set(schema.get("required", ())) <= set(value):
        return False
    return all(is_valid(value[name], inner) for name, inner in properties.items() if name in value)
