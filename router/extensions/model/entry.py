"""One extension's registry entry: its document, read part by part, as frozen values
(docs/reference/extensions.md#registry).

    ExtensionEntry  id, kind, bounds of a call, config
      ├─ ExtensionVersion*    a subject, and rules for whom it is; a request gets the first version whose rules match
      │    └─ ExtensionInstance*   shares of its calls
      └─ subject, ExtensionInstance*    an entry without versions is its own and only one

A subject tells kind, id and version, so that a service can be found, allowed and watched by its
name alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

import orjson
from msgspec import Struct

from router.contracts.codec import MAX_DEPTH, describe_mark, is_deeper
from router.core import ids
from router.policies.model.fields import DocumentError, Fields, Problems, quote

PRE, VALIDATOR, POST, PROVIDER = "pre", "validator", "post", "provider"

SUBJECT_PREFIXES: Mapping[str, str] = {
    PRE: "beamline.ext.pre.",
    VALIDATOR: "beamline.ext.validate.",
    POST: "beamline.ext.post.",
    PROVIDER: "beamline.provider.",
}
KINDS = tuple(SUBJECT_PREFIXES)

# below the two seconds that clients commonly give a request: they hear what failed, not silence
TIMEOUT_MS = 1500
PROVIDER_TIMEOUT_MS = 5000  # a provider is invoked for itself, and computes for longer
DEFAULT_INSTANCE_WEIGHT = 100  # of an instance that says nothing: a full share


class VersionRules(Struct, frozen=True):
    """For whom a version is: every non-empty list must hold the request's value. All lists empty:
    for all requests.
    """

    tenants: frozenset[str] = frozenset()
    environments: frozenset[str] = frozenset()
    policies: frozenset[str] = frozenset()

    def is_for(self, tenant_id: str, policy_id: str, environment: str | None) -> bool:
        return (
            (not self.tenants or tenant_id in self.tenants)
            and (not self.policies or policy_id in self.policies)
            and (not self.environments or environment in self.environments)
        )


NO_RULES = VersionRules()


class ExtensionInstance(Struct, frozen=True):
    """One of several services of a version, drawn by `weight` (1..100)."""

    id: str
    subject: str
    weight: int
    enabled: bool


class ExtensionVersion(Struct, frozen=True):
    """`is_default`: used when no version's rules match; without rules it is used only then."""

    version: str
    subject: str
    enabled: bool = True
    rules: VersionRules = NO_RULES
    is_default: bool = False
    instances: tuple[ExtensionInstance, ...] = ()

    @property
    def is_for_all(self) -> bool:
        """Whether it is for every request."""
        return self.rules == NO_RULES and not self.is_default

    def is_for(self, tenant_id: str, policy_id: str, environment: str | None) -> bool:
        if self.is_default and self.rules == NO_RULES:
            return False
        return self.rules.is_for(tenant_id, policy_id, environment)


class ExtensionEntry(Struct, frozen=True, kw_only=True):
    """One extension. `kind`: pre | validator | post | provider. Without `versions`, `subject` and `instances` are its only one."""

    id: str
    kind: str
    subject: str | None
    timeout_ms: int
    retry: int
    enabled: bool
    config: Mapping[str, object]
    metadata: Mapping[str, object]
    versions: tuple[ExtensionVersion, ...]
    instances: tuple[ExtensionInstance, ...]

    def list_versions(self) -> tuple[ExtensionVersion, ...]:
        """The versions to choose from, in order."""
        if self.versions or self.subject is None:
            return self.versions
        return (
            ExtensionVersion(
                self.subject.rpartition(".")[2], self.subject, instances=self.instances
            ),
        )


def subject_of(kind: str, extension_id: str, version: str) -> str:
    return f"{SUBJECT_PREFIXES[kind]}{extension_id}.{version}"


# -- Each object inside a registry entry: its keys, bounds and defaults, one reader for each.


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
        fields, "versions", "version", lambda item: _version(item, kind, extension_id)
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
    return _read_unique(fields, "instances", "id", lambda item: _instance(item, subject))


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
    pairs = [(entry, read(entry)) for entry in entries]
    taken: set[str] = set()
    for entry, value in pairs:
        own: str = getattr(value, name)
        if own and own in taken:
            entry.refuse(name, f"{quote(own)} is taken by another")
        taken.add(own)
    return tuple(value for _, value in pairs)


# -- Read a registry entry's document as an ExtensionEntry, or raise an EntryError that lists
# every mistake with its path.
#
# The keys are the table of docs/reference/extensions.md#registry; any other key is an error. Size
# and depth are looked at before anything is read: every router reads whatever a client has put
# into the bucket.


MAX_ENTRY_BYTES = 256 * 1024  # bytes of a whole document
RESERVED_PROVIDER = "v1"  # `beamline.provider.v1.invoke` is a service of the specifications


class EntryError(DocumentError):
    """A document that is no registry entry."""

    code = "invalid_extension"


def load_entry(data: bytes, extension_id: str | None = None) -> ExtensionEntry:
    """`parse_entry` for the bytes of a JSON document."""
    return parse_entry(read_document(data), extension_id)


def read_document(data: bytes, most: int = MAX_ENTRY_BYTES) -> Mapping[str, object]:
    """The bytes as a JSON object; its content is not checked here. Raises EntryError."""
    check_size(data, most)
    if is_deeper(data, MAX_DEPTH):
        raise EntryError([("entry", f"is nested deeper than {MAX_DEPTH}")])
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as exc:
        raise EntryError([("entry", describe_mark(data) or f"is not JSON: {exc}")]) from exc
    if not isinstance(document, Mapping):
        raise EntryError([("entry", "is not an object")])
    return document


def check_size(data: bytes, most: int = MAX_ENTRY_BYTES) -> None:
    if len(data) > most:
        raise EntryError([("entry", f"is larger than {most} bytes")])


def parse_entry(document: object, extension_id: str | None = None) -> ExtensionEntry:
    """Read one entry; `extension_id` is what it is stored under, if it is. Raises EntryError."""
    if not isinstance(document, Mapping):
        raise EntryError([("entry", "is not an object")])
    fields = Fields(document, "", Problems())
    fields.require("id", "type", *(() if document.get("versions") else ("subject",)))
    entry = _entry(fields)
    if extension_id not in (None, entry.id):
        fields.refuse(
            "id", f"{quote(entry.id)} is not {quote(extension_id)}, which it is stored under"
        )
    fields.close("an extension")
    fields.problems.raise_if_any(EntryError)
    return entry


def _entry(fields: Fields) -> ExtensionEntry:
    extension_id, kind = fields.text("id", TOKEN, ""), fields.choice("type", KINDS, "")
    if kind == PROVIDER and extension_id == RESERVED_PROVIDER:
        fields.refuse(
            "id", f'"{RESERVED_PROVIDER}" is taken: beamline.provider.v1.invoke is not an extension'
        )
    subject = read_subject(fields, kind, extension_id)
    instances, versions = read_instances(fields, subject), read_versions(fields, kind, extension_id)
    if versions and instances:
        fields.refuse("instances", "stand inside a version where there are versions")
    return ExtensionEntry(
        id=extension_id,
        kind=kind,
        subject=subject,
        timeout_ms=fields.integer(
            "timeout_ms", 10, 60_000, PROVIDER_TIMEOUT_MS if kind == PROVIDER else TIMEOUT_MS
        ),
        retry=fields.integer("retry", 0, 3, 0),
        enabled=fields.flag("enabled", True),
        config=read_part(fields, "config"),
        metadata=read_part(fields, "metadata"),
        versions=versions,
        instances=instances,
    )
