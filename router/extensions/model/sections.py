"""Each object inside a registry entry: its keys, bounds and defaults, one reader for each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

import orjson

from router.core import ids
from router.extensions.model.entry import (
    DEFAULT_INSTANCE_WEIGHT,
    SUBJECT_PREFIXES,
    ExtensionInstance,
    ExtensionVersion,
    VersionRules,
)
from router.policies.model.fields import Fields, quote

LARGEST_PART = 64 * 1024  # bytes of config, of metadata
MAX_ENTRIES = 64  # versions; instances of one; names in a rule

TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}")
NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")

T = TypeVar("T")


def read_part(fields: Fields, key: str) -> Mapping[str, object]:
    """An object whose content is not checked here, of bounded size."""
    part = fields.free(key)
    try:
        size = len(orjson.dumps(part))
    except orjson.JSONEncodeError:
        fields.refuse(key, "nests too deep")
        return {}
    if size > LARGEST_PART:
        fields.refuse(key, f"is larger than {LARGEST_PART} bytes")
    return part


def read_subject(
    fields: Fields, kind: str, extension_id: str, version: str | None = None
) -> str | None:
    """A subject that matches the kind and the id beside it, and the version where there is one."""
    value = fields.take("subject")
    if value is None or not (kind and extension_id) or version == "":
        return None  # the kind or the id is wrong, which is reported already
    prefix = f"{SUBJECT_PREFIXES[kind]}{extension_id}."
    last = value.removeprefix(prefix) if isinstance(value, str) else ""
    if value == prefix + last and (last == version if version else ids.is_token(last)):
        return value
    fields.refuse("subject", f"{quote(value)} is not {prefix}{version or '{version}'}")
    return None


def read_versions(fields: Fields, kind: str, extension_id: str) -> tuple[ExtensionVersion, ...]:
    """Each version once, at most one of them the default."""
    versions = _read_unique(
        fields, "versions", "version", lambda one: _version(one, kind, extension_id)
    )
    defaults = [index for index, version in enumerate(versions) if version.is_default]
    for index in defaults[1:]:
        fields.refuse(
            f"versions[{index}].default", f"versions[{defaults[0]}] is the default already"
        )
    return versions


def _version(fields: Fields, kind: str, extension_id: str) -> ExtensionVersion:
    fields.require("version", "subject")
    name = fields.text("version", TOKEN, "")
    subject = read_subject(fields, kind, extension_id, name)
    version = ExtensionVersion(
        version=name,
        subject=subject or "",
        enabled=fields.flag("enabled", True),
        rules=_rules(fields.child("rules")),
        is_default=fields.flag("default", False),
        instances=read_instances(fields, subject),
    )
    fields.close("a version")
    return version


def _rules(fields: Fields | None) -> VersionRules:
    if fields is None:
        return VersionRules()
    rules = VersionRules(
        _names(fields, "tenant_id"), _names(fields, "environment"), _names(fields, "policy_id")
    )
    fields.close("a version's rules")
    return rules


def _names(fields: Fields, key: str) -> frozenset[str]:
    value = fields.take(key)
    if value is None:
        return frozenset()
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_ENTRIES:
        fields.refuse(key, f"is not a list of 1..{MAX_ENTRIES} names; leave it out to mean all")
        return frozenset()
    for index, name in enumerate(value):
        if not isinstance(name, str) or NAME.fullmatch(name) is None:
            fields.refuse(f"{key}[{index}]", f"{quote(name)} does not match {NAME.pattern}")
            return frozenset()
    return frozenset(value)


def read_instances(fields: Fields, subject: str | None) -> tuple[ExtensionInstance, ...]:
    """The services behind one subject; None when the subject is wrong already."""
    return _read_unique(fields, "instances", "id", lambda one: _instance(one, subject))


def _instance(fields: Fields, subject: str | None) -> ExtensionInstance:
    fields.require("id")
    name = fields.text("id", TOKEN, "")
    weight, enabled = (
        fields.integer("weight", 1, 100, DEFAULT_INSTANCE_WEIGHT),
        fields.flag("enabled", True),
    )
    instance = ExtensionInstance(
        name, _read_instance_subject(fields, subject, name), weight, enabled
    )
    fields.close("an instance")
    return instance


def _read_instance_subject(fields: Fields, subject: str | None, name: str) -> str:
    """An instance's subject is below its version's: a client that may call the version may call
    each instance.
    """
    value = fields.take("subject")
    if value is None or subject is None:
        return f"{subject}.{name}"
    if isinstance(value, str) and value.startswith(f"{subject}.") and ids.is_literal_subject(value):
        return value
    fields.refuse("subject", f"{quote(value)} is not a literal subject under {subject}.")
    return ""


def _read_unique(fields: Fields, key: str, name: str, read: Callable[[Fields], T]) -> tuple[T, ...]:
    """The list under `key`, in which every `name` is unique."""
    entries = fields.children(key)
    if len(entries) > MAX_ENTRIES:
        fields.refuse(key, f"has {len(entries)} entries where {MAX_ENTRIES} are allowed")
        return ()
    found = [(entry, read(entry)) for entry in entries]
    taken: set[str] = set()
    for entry, value in found:
        own: str = getattr(value, name)
        if own and own in taken:
            entry.refuse(name, f"{quote(own)} is taken by another")
        taken.add(own)
    return tuple(value for _, value in found)
