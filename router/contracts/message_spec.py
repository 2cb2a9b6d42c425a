"""A message, declared once: its fields, and all that follows from them.

    MessageSpec ──> build_reader   the message as its Struct, or the Malformed that names a field
                ──> build_wire     its envelope, and protobuf as the object that it would be in JSON
                ──> build_shape    JSON Schema and examples, of which pages and types are made

A page lists the fields in the order of the spec. A reader goes by another order: the ids, what is
`first`, then the fields of the Struct. So of two wrong fields it always names the same one.

A message that the router writes needs no spec: the fields of its Struct say their schemas
(`shapes.parts.build_written`). One whose reader is a type that msgspec decodes has its schema from
that type (`shapes.parts.build_from_type`).

A fast reader stands by hand beside the spec of its message. `tests/contracts/test_plain_worker`
holds it to the reader of the spec, `tests/contracts/agreement` holds that one to the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message as Protobuf
from msgspec import Struct

from router.contracts.field_kinds import MESSAGE_ID, TENANT, TRACE, FieldKind
from router.contracts.malformed import miss_ids, missing_field
from router.contracts.shapes.enveloped import USUAL, EnvelopeRules, build_worker_message
from router.contracts.shapes.message_shape import RECEIVED, MessageShape, ShapeLimits
from router.contracts.shapes.parts import Schema, add_description, build_object, is_anywhere_present
from router.contracts.worker import MessageType, Received

T = TypeVar("T")


class Field(Struct, frozen=True):
    """One field. `text` stands on the page of messages, before what its kind says of itself."""

    name: str
    kind: FieldKind
    text: str = ""
    is_required: bool = False
    path: str = ""  # in protobuf, where its name is not its place, or the Struct has no such field
    unpack: Callable[[Any], Any] | None = None  # of what protobuf has there
    example: object = None  # in the examples; None: they have no such field


# What an envelope may say beside its data.
SHARED = (Field("tenant_id", TENANT), Field("trace_id", TRACE), Field("msg_id", MESSAGE_ID))


class MessageSpec(Struct, Generic[T], frozen=True, kw_only=True):
    """One message. `made` is the Struct that it is read as: each of its fields is declared here.

    `derived`: those of them that no program writes, and those that `beside` speaks of.
    """

    name: str
    title: str
    text: str
    page: str  # the rules of the message
    made: type[T]
    fields: tuple[Field, ...]
    derived: tuple[Field, ...] = ()
    envelope: str | None = None  # its `kind`; None: JSON alone, in an envelope of any kind
    beside: EnvelopeRules = USUAL
    proto: type[Protobuf] | None = None
    ids: tuple[str, ...] = ()  # one of these is required
    known_by: tuple[str, ...] = ()  # one of these makes protobuf believable; else one of `ids`
    first: tuple[str, ...] = ()  # read all, before one of them is missed
    kept: Set[str] = frozenset()  # fields that stay as they were written (`raw_json`)
    rules: tuple[Schema, ...] = ()  # about several fields
    examples: tuple[Any, ...] = ()


def build_reader(spec: MessageSpec[T]) -> Callable[[Received], T]:
    """The careful reader: it takes what the schema takes, and raises Malformed.

    Its source is what a person would write, and is compiled once: a loop over the fields takes half
    as long again. That of a heartbeat:

        def read(sent):
            body = sent.body
            worker_id = read_worker_id(body, 'worker_id')
            if worker_id is None: raise missing_field('worker_id', 'worker_id')
            return made(worker_id=worker_id, status=read_status(body, 'status'), …)
    """
    kinds = {name: field.kind for name, field in _list_fields(spec).items()}
    early = (*spec.ids, *spec.first)
    calls = {
        name: f"read_{name}({'body' if kinds[name].is_of_body else 'sent'}, {name!r})"
        for name in _list_names(spec)
    }
    # an id is never empty
    has_id = [f"if not ({' or '.join(spec.ids)}): raise miss_ids({spec.ids})"] if spec.ids else []
    source = [
        "body = sent.body",
        *(f"{name} = {calls[name]}" for name in spec.ids),
        *has_id,
        *(f"{name} = {calls[name]}" for name in spec.first),
        *(f"if {name} is None: raise missing_field({name!r}, {name!r})" for name in spec.first),
        f"return made({', '.join(f'{n}={n if n in early else calls[n]}' for n in calls)})",
    ]
    readers = {f"read_{name}": kinds[name].read for name in calls}
    scope = {"made": spec.made, "miss_ids": miss_ids, "missing_field": missing_field, **readers}
    return _compile("read(sent)", source, scope)


def build_wire(spec: MessageSpec[T]) -> MessageType:
    """How the message comes, for what reads bytes."""
    if spec.envelope is None or spec.proto is None:
        raise ValueError(f"{spec.name} has no envelope or no protobuf")
    known_by = spec.known_by or spec.ids
    return MessageType(spec.envelope, known_by, _build_decoder(spec, spec.proto), spec.kept)


def build_shape(spec: MessageSpec[T], limits: ShapeLimits) -> MessageShape:
    """The message as it is published."""
    required = [field.name for field in spec.fields if field.is_required]
    has_id = [is_anywhere_present([(name,) for name in spec.ids])] if len(spec.ids) > 1 else []
    rules = {"allOf": [*has_id, *spec.rules]} if has_id or spec.rules else {}
    properties = {field.name: _build_field(field, limits) for field in spec.fields}
    return MessageShape(
        name=spec.name,
        title=spec.title,
        text=spec.text,
        direction=RECEIVED,
        body=build_worker_message(
            spec.envelope, build_object(properties, required, **rules), spec.beside
        ),
        page=spec.page,
        examples=spec.examples,
        proto=spec.proto.DESCRIPTOR.full_name if spec.proto is not None else None,
    )


def _build_field(field: Field, limits: ShapeLimits) -> Schema:
    schema, limit = field.kind.schema, field.kind.limit
    if limit is not None:
        schema = {**schema, "maximum": getattr(limits, limit)}
    return add_description(schema, field.text) if field.text else schema


def _build_decoder(
    spec: MessageSpec[T], proto: type[Protobuf]
) -> Callable[[bytes], dict[str, Any]]:
    """Read the fields that protobuf has. Absent ones are 0 or empty there."""
    known, made = proto.DESCRIPTOR.fields_by_name, _list_names(spec)
    values: list[str] = []
    scope: dict[str, Any] = {"parse": proto.FromString}
    for name, field in _list_fields(spec).items():
        path = field.path or (name if name in made else "")
        if path.partition(".")[0] not in known:
            continue
        value = f"sent.{path}"
        if field.unpack is not None:
            scope[f"unpack_{name}"] = field.unpack
            value = f"unpack_{name}({value})"
        values.append(f"{name!r}: {value}")
    return _compile(
        "decode(data)", ["sent = parse(data)", f"return {{{', '.join(values)}}}"], scope
    )


def _compile(head: str, lines: Sequence[str], scope: dict[str, Any]) -> Callable[[Any], Any]:
    """A function of these lines, which hold nothing but names of fields."""
    exec("\n    ".join([f"def {head}:", *lines]), scope)  # noqa: S102
    return scope[head.partition("(")[0]]  # type: ignore[no-any-return]


def _list_fields(spec: MessageSpec[T]) -> dict[str, Field]:
    return {field.name: field for field in (*SHARED, *spec.fields, *spec.derived)}


def _list_names(spec: MessageSpec[T]) -> tuple[str, ...]:
    return spec.made.__struct_fields__  # type: ignore[attr-defined, no-any-return]
