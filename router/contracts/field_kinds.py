"""The kinds of fields that messages share: how a value is read, and how a schema says the same.

`field_readers` reads a value of an object; a message's own kinds stand beside its spec. Each value
of a message costs one call, so a kind's reader is the function itself, or a `partial` of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Annotated, Any

from msgspec import Meta, Struct

from router.contracts import field_readers
from router.contracts.field_readers import SCOPED, Object, is_scoped, read_id
from router.contracts.malformed import invalid_field, missing_field
from router.contracts.shapes.parts import Schema, refer
from router.contracts.worker import Received
from router.core.ids import MAX_NAME, is_opaque
from router.core.masking import MAX_TEXT, shorten


def read_nothing(_: Received, __: str) -> None:
    """Of a field that other readers use, or that is read with another one."""


class PlainForm(Struct, frozen=True, kw_only=True):
    """How a fast reader takes a field of one kind (`message_spec`).

    msgspec checks `type` while it parses. `value` and `is_usual` are Python: the value, from
    `body.$`, `message` and `limits`; and what holds of a usual one, which is `$`. Without a `value`
    it is the body's. `names`: what both call.

    A value that is not usual goes to `FieldKind.read`, which must read a usual one alike.
    """

    type: Any
    value: str = ""
    is_usual: str = ""
    is_filled: bool = False  # `value` is never None
    names: Mapping[str, Any] = {}


class FieldKind(Struct, frozen=True):
    """One rule, for programs that write a field and for the reader.

    `read` gets the field's name; it raises Malformed. `limit`: the setting that is the maximum.
    """

    schema: Schema
    read: Callable[[Any, str], Any] = read_nothing
    limit: str | None = None
    is_of_body: bool = False  # it reads the message's own object, and nothing beside it
    plain: PlainForm | None = None  # of a message that has a fast reader

    @property
    def is_read(self) -> bool:
        return self.read is not read_nothing


def build_kind(
    schema: Schema, read: Callable[[Object, str], Any], plain: PlainForm | None = None
) -> FieldKind:
    """A kind whose value follows from the message's own object."""
    return FieldKind(schema, read, is_of_body=True, plain=plain)


def build_choice(words: Collection[str]) -> FieldKind:
    """One of these words; it is required."""
    legal = ", ".join(map(repr, sorted(words)))
    return build_kind(
        {"enum": sorted(words)},
        partial(field_readers.read_choice, legal=words),
        PlainForm(type=str, is_usual=f"$ in {{{legal}}}"),
    )


def build_whole(most: int) -> FieldKind:
    """A number from 0 to `most`, which is rounded."""
    return build_kind(
        {"type": "number", "minimum": 0, "maximum": most},
        partial(field_readers.read_whole, most=most),
        PlainForm(type=int, value="body.$", is_usual=f"0 <= $ <= {most}"),
    )


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


# Of a number that is no whole one the careful reader makes one.
PLAIN_WHOLE = Annotated[int, Meta(ge=0, le=field_readers.MAX_INT64)]
_PLAIN_ID = PlainForm(type=str, is_usual="is_opaque($)")
_PLAIN_NAME = PlainForm(type=str, is_usual=f"0 < len($) <= {MAX_NAME}")
_PLAIN_EXCERPT = PlainForm(
    type=str,
    value=f"shorten(body.$, {MAX_TEXT}) if body.$ else None",
    names={"shorten": shorten},
)

ANY = FieldKind({}, plain=PlainForm(type=Any))
ID = build_kind(refer("id"), field_readers.read_id, _PLAIN_ID)
OPTIONAL_ID = build_kind(refer("optional_id"), field_readers.read_id, _PLAIN_ID)
NAME = build_kind(refer("optional_name"), field_readers.read_text, _PLAIN_NAME)
EXCERPT = build_kind({"type": ["string", "null"]}, field_readers.read_excerpt, _PLAIN_EXCERPT)
ROUNDED = build_kind(
    refer("rounded"), field_readers.read_whole, PlainForm(type=PLAIN_WHOLE, value="body.$")
)

# A header goes before the field of its name. `shapes.enveloped` has their schemas.
TENANT = FieldKind({}, read_tenant)
REQUIRED_TENANT = FieldKind({}, read_required_tenant)
TRACE = FieldKind({}, read_trace)
MESSAGE_ID = FieldKind({}, read_message_id)
