"""Read a registry entry's document as an ExtensionEntry, or raise an EntryError that lists every
mistake with its path.

The keys are the table of docs/reference/extensions.md#registry; any other key is an error. Size and
depth are looked at before anything is read: every router reads whatever a client has put into the
bucket.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from router.contracts.codec import MAX_DEPTH, describe_mark, is_deeper
from router.extensions.model.entry import (
    KINDS,
    PROVIDER,
    PROVIDER_TIMEOUT_MS,
    TIMEOUT_MS,
    ExtensionEntry,
)
from router.extensions.model.sections import (
    TOKEN,
    read_instances,
    read_part,
    read_subject,
    read_versions,
)
from router.policies.model.fields import DocumentError, Fields, Problems, quote

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
