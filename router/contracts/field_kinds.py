"""The kinds of fields that messages share: how a value is read, and how a schema says the same.

`field_readers` reads a value of an object; a message's own kinds stand beside its spec. Each value
of a message costs one call, so a kind's reader is the function itself, or a `partial` of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from msgspec import Struct

from router.contracts import field_readers
from router.contracts.field_readers import SCOPED, Object, is_scoped, read_id
from router.contracts.malformed import invalid_field, missing_field
from router.contracts.shapes.parts import Schema, refer
from router.contracts.worker import Received
from router.core.ids import is_opaque


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
    return build_kind({"enum": sorted(words)}, partial(field_readers.read_choice, legal=words))


def build_whole(most: int) -> FieldKind:
    """A number from 0 to `most`, which is rounded."""
    schema: Schema = {"type": "number", "minimum": 0, "maximum": most}
    return build_kind(schema, partial(field_readers.read_whole, most=most))


def read_tenant(sent: Received, name: str) -> str | None:
    """The header's tenant if it is a tenant id, else the payload's."""
    value = sent.headers.get(name)
    if value and is_scoped(value):
        return value
    value = sent.body.get(name)
    if value is None or value == "":
        return None
    if type(value) is not str or not is_scoped(value):
        raise invalid_field(name, name, SCOPED)
    return value


def read_trace(sent: Received, name: str) -> str | None:
    """The header's trace id if it is one, else the payload's."""
    value = sent.headers.get(name)
    return value if value and is_opaque(value) else read_id(sent.body, name)


def read_message_id(sent: Received, _: str) -> str | None:
    """The header's message id if it is one, else the payload's `msg_id`."""
    value = sent.headers.get("Nats-Msg-Id")
    return value if value and is_opaque(value) else read_id(sent.body, "msg_id")


def read_required_tenant(sent: Received, name: str) -> str:
    """Of a message that no known assignment fills."""
    tenant_id = read_tenant(sent, name)
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
TENANT = FieldKind({}, read_tenant)
REQUIRED_TENANT = FieldKind({}, read_required_tenant)
TRACE = FieldKind({}, read_trace)
MESSAGE_ID = FieldKind({}, read_message_id)
