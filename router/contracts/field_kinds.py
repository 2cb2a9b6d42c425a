"""The kinds of fields that messages share: how a value is read, and how a schema says the same.

`field_readers` reads a value of an object; a message's own kinds stand beside its spec.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from msgspec import Struct

from router.contracts import field_readers
from router.contracts.field_readers import Object
from router.contracts.malformed import missing_field
from router.contracts.shapes.parts import Schema, refer
from router.contracts.worker import Received


def read_nothing(_: Received, __: str) -> None:
    """Of a field that other readers use, or that is read with another one."""


class FieldKind(Struct, frozen=True):
    """One rule, for programs that write a field and for the reader.

    `read` gets the field's name; it raises Malformed. `limit`: the setting that is the maximum.
    """

    schema: Schema
    read: Callable[[Any, str], Any] = read_nothing
    limit: str | None = None
    is_of_body: bool = False  # it reads the message's own object, and nothing beside it


def build_kind(schema: Schema, read: Callable[[Object, str], Any]) -> FieldKind:
    """A kind whose value follows from the message's own object."""
    return FieldKind(schema, read, is_of_body=True)


def build_choice(words: Collection[str]) -> FieldKind:
    """One of these words; it is required."""
    schema = {"enum": sorted(words)}
    return build_kind(schema, lambda body, name: field_readers.read_choice(body, name, words))


def build_whole(most: int) -> FieldKind:
    """A number from 0 to `most`, which is rounded."""
    schema: Schema = {"type": "number", "minimum": 0, "maximum": most}
    return build_kind(schema, lambda body, name: field_readers.read_whole(body, name, most))


def read_required_tenant(sent: Received, name: str) -> str:
    """Of a message that no known assignment fills."""
    tenant_id = field_readers.read_tenant(sent.headers, sent.body)
    if tenant_id is None:
        raise missing_field(name, name)
    return tenant_id


ANY = FieldKind({})
ID = build_kind(refer("id"), field_readers.read_id)
OPTIONAL_ID = build_kind(refer("optional_id"), field_readers.read_id)
NAME = build_kind(refer("optional_name"), field_readers.read_text)
EXCERPT = build_kind({"type": ["string", "null"]}, field_readers.read_excerpt)
ROUNDED = build_kind(refer("rounded"), field_readers.read_whole)

# A header goes before the field of its name. `shapes.enveloped` has their schemas.
TENANT = FieldKind({}, lambda sent, _: field_readers.read_tenant(sent.headers, sent.body))
REQUIRED_TENANT = FieldKind({}, read_required_tenant)
TRACE = FieldKind({}, lambda sent, _: field_readers.read_trace(sent.headers, sent.body))
MESSAGE_ID = FieldKind({}, lambda sent, _: field_readers.read_message_id(sent.headers, sent.body))
