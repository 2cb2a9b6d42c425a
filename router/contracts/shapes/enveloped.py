"""A message bare, or in a worker's envelope (docs/reference/contracts.md#encodings).

{…}                                   bare
{version, kind, data{…}}              enveloped: `data`, and beside it `tenant_id`, `trace_id`,
                                      `msg_id`, which go first
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from router.contracts.shapes.parts import NEVER, NULL, Path, Schema, build_object, find_first, refer

VERSIONS = ("version", "schema_version")
# the kind of each, where it is given
SHARED: Mapping[str, str] = MappingProxyType(
    {"tenant_id": "scoped_id", "trace_id": "id", "msg_id": "id"}
)
_VERSION: Schema = {"description": 'the version of the contract: "1"'}


class EnvelopeRules(Struct, frozen=True, kw_only=True):
    """What both forms of a message may say beside its own fields.

    `shared`: the fields that are read beside an envelope's data too; `required`: those of them that
    must be given; `versions`: the fields of a bare message that name its version (none: no version
    is read).
    """

    shared: Mapping[str, str] = SHARED
    required: Sequence[str] = ()
    versions: Sequence[str] = VERSIONS
    bare: Sequence[Schema] = ()  # of the bare form alone
    enveloped: Sequence[Schema] = ()


USUAL = EnvelopeRules()


def build_worker_message(
    kind: str | None, fields: Schema, rules: EnvelopeRules = USUAL
) -> dict[str, Any]:
    """A message with these fields, bare or in the envelope of this kind; None: of any kind, as a
    heartbeat's.
    """
    if kind is None:
        return _build_message_of_any_kind(fields)
    shared, required, versions = rules.shared, rules.required, rules.versions
    bare = _build_bare_form(fields, shared, required, versions, {"kind": {"not": {"const": kind}}})
    enveloped = _build_envelope_form(
        {"const": kind}, fields, shared, required, VERSIONS if versions else ()
    )
    return {
        "type": "object",
        "oneOf": [_add_rules(bare, rules.bare), _add_rules(enveloped, rules.enveloped)],
    }


def _add_rules(form: dict[str, Any], rules: Sequence[Schema]) -> dict[str, Any]:
    return {**form, **_list_rules([*form.get("allOf", ()), *rules])}


def _build_message_of_any_kind(fields: Schema) -> dict[str, Any]:
    """Its version is not read, and only its tenant is shared."""
    shared = {"tenant_id": "scoped_id"}
    kind: Schema = {"type": "string"}
    enveloped = _build_envelope_form(kind, fields, shared, (), ())
    is_enveloped = build_object({"kind": kind}, ("kind", "data"))
    bare = _build_bare_form(fields, shared, (), (), {})
    return {"type": "object", "oneOf": [{**bare, "not": is_enveloped}, enveloped]}


def _build_bare_form(
    fields: Schema,
    shared: Mapping[str, str],
    required: Sequence[str],
    versions: Sequence[str],
    more: Mapping[str, Schema],
) -> dict[str, Any]:
    parts = {
        name: refer(part if name in required else f"optional_{part}")
        for name, part in shared.items()
    }
    properties = {"version": _VERSION, **parts, **fields["properties"], **more}
    rules = [
        find_first([(name,) for name in versions], refer("version"), absent=NULL),
        *fields.get("allOf", ()),
    ]
    needed = (*required, *fields.get("required", ()))
    return {**build_object(properties, needed), "title": "bare", **_list_rules(rules)}


def _build_envelope_form(
    kind: Schema,
    fields: Schema,
    shared: Mapping[str, str],
    required: Sequence[str],
    versions: Sequence[str],
) -> dict[str, Any]:
    texts = {
        name: {"description": f"{name.replace('_', ' ')}; it goes before the same field in `data`"}
        for name in shared
    }
    properties = {
        "kind": kind,
        "version": _VERSION,
        **texts,
        "data": {**fields, "properties": {"version": _VERSION, **texts, **fields["properties"]}},
    }
    places: list[Path] = [*((name,) for name in versions), *(("data", name) for name in versions)]
    rules = [find_first(places, refer("version"), absent=NULL)]
    rules += [
        find_first(
            ((name,), ("data", name)), refer(part), otherwise=NEVER if name in required else {}
        )
        for name, part in shared.items()
    ]
    return build_object(properties, ("kind", "data"), title="enveloped", **_list_rules(rules))


def _list_rules(rules: Sequence[Schema]) -> dict[str, Any]:
    kept = [rule for rule in rules if rule]
    return {"allOf": kept} if kept else {}
