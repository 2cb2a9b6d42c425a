"""The shapes of operators' services, from the notation in which each service describes them.

{tenant_id, request_id or message_id}      both fields are known, one of them is required
{tenant_id, policy_id, version?}           version is optional
{ok, policies[{…}]}                        policies is a list; what stands inside is not looked at
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from router.contracts.shapes.parts import Schema, build_object, is_anywhere_present

_TEXT: Schema = {"type": "string"}
_OBJECT: Schema = {"type": "object"}
_WHOLE: Schema = {"type": "integer"}
_FLAG: Schema = {"type": "boolean"}
_KINDS: Mapping[str, Schema] = {
    **dict.fromkeys(
        (
            "tenant_id",
            "policy_id",
            "request_id",
            "message_id",
            "id",
            "author",
            "router_node_id",
            "about",
        ),
        _TEXT,
    ),
    **dict.fromkeys(("policy", "context", "decision", "entry"), _OBJECT),
    **dict.fromkeys(("version", "replaces", "against"), _WHOLE),
    **dict.fromkeys(("invoke", "is_new", "is_recorded"), _FLAG),
}
_NESTED = re.compile(r"\[[^][{}]*\]|\{[^{}]*\}")
_NAME = re.compile(r"([a-z_]+)(\?)?(\[)?")


def build_request(notation: str) -> Schema:
    """A request's object: required fields are those without a question mark."""
    fields = list(_list_fields(notation))
    required = [names[0] for names, is_optional, _ in fields if not is_optional and len(names) == 1]
    one_of = [
        is_anywhere_present([(name,) for name in names])
        for names, is_optional, _ in fields
        if not is_optional and len(names) > 1
    ]
    properties = {name: _KINDS.get(name, {}) for names, _, _ in fields for name in names}
    return build_object(properties, required, **({"allOf": one_of} if one_of else {}))


def build_response(notation: str) -> Schema:
    """`ok` and the fields of a success, or `ok: false` and the error."""
    fields = [
        (name, is_list)
        for names, _, is_list in _list_fields(notation)
        for name in names
        if name != "ok"
    ]
    kinds = {name: {"type": "array"} if is_list else {} for name, is_list in fields}
    success = build_object({"ok": {"const": True}, **kinds}, ("ok",))
    error = build_object({"code": _TEXT, "message": _TEXT, "details": _OBJECT}, ("code", "message"))
    return {
        "oneOf": [success, build_object({"ok": {"const": False}, "error": error}, ("ok", "error"))]
    }


def _list_fields(notation: str) -> Iterator[tuple[list[str], bool, bool]]:
    """(names that stand for each other, whether they are optional, whether they are lists)."""
    inside = notation[notation.find("{") + 1 : notation.rfind("}")]
    while (
        outer := _NESTED.sub(lambda bracket: "[" if bracket[0].startswith("[") else "", inside)
    ) != inside:
        inside = outer
    for part in re.split(r",|;", inside):
        matches = [
            match
            for alternative in re.split(r" or | \| ", part)
            if (match := _NAME.match(alternative.strip()))
        ]
        if matches:
            yield (
                [match[1] for match in matches],
                any(match[2] for match in matches),
                any(match[3] for match in matches),
            )
