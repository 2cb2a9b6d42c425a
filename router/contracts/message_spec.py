"""A message, declared once: its fields, and all that follows from them.

    MessageSpec ──> build_reader   the message as its Struct, or the Malformed that names a field
                ──> build_plain    the same of an ordinary message, faster
                ──> build_wire     its envelope, and protobuf as the object that it would be in JSON
                ──> build_shape    JSON Schema and examples, of which pages and types are made

A page lists the fields in the order of the spec. A reader goes by another order: the ids, what is
`first`, then the fields of the Struct. So of two wrong fields it always names the same one.

A message that the router writes needs no spec: the fields of its Struct say their schemas
(`shapes.parts.build_written`). One whose reader is a type that msgspec decodes has its schema from
that type (`shapes.parts.build_from_type`).

What a spec forgets is an error at import that names the field: a field of the Struct that the spec
or protobuf lacks, and one of the spec that is read and has no place in the Struct.
`tests/contracts/test_plain_worker` holds the fast reader to the careful one,
`tests/contracts/agreement` holds that one to the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, Generic, TypeVar, cast

import msgspec
from google.protobuf.message import Message as Protobuf
from msgspec import Raw, Struct

from router.contracts.field_kinds import MESSAGE_ID, TENANT, TRACE, FieldKind, PlainForm
from router.contracts.field_readers import is_scoped
from router.contracts.headers import first_stored_ms
from router.contracts.malformed import miss_ids, missing_field
from router.contracts.shapes.enveloped import USUAL, EnvelopeRules, build_worker_message
from router.contracts.shapes.message_shape import RECEIVED, MessageShape, ShapeLimits
from router.contracts.shapes.parts import Schema, add_description, build_object, is_anywhere_present
from router.contracts.worker import (
    MessageType,
    PlainBody,
    Received,
    WorkerMessageLimits,
    decode_plain,
)
from router.core.ids import is_opaque
from router.core.message import Message

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
    _check_fields(spec)
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
    _check_protobuf(spec, spec.proto)
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
    fields, made = proto.DESCRIPTOR.fields_by_name, _list_names(spec)
    values: list[str] = []
    scope: dict[str, Any] = {"parse": proto.FromString}
    for name, field in _list_fields(spec).items():
        path = field.path or (name if name in made else "")
        if path.partition(".")[0] not in fields:
            continue
        value = f"sent.{path}"
        if field.unpack is not None:
            scope[f"unpack_{name}"] = field.unpack
            value = f"unpack_{name}({value})"
        values.append(f"{name!r}: {value}")
    return _compile(
        "decode(data)", ["sent = parse(data)", f"return {{{', '.join(values)}}}"], scope
    )


def _compile(head: str, lines: Sequence[str], scope: dict[str, Any]) -> Callable[..., Any]:
    """A function of these lines, which hold what specs and kinds say, and nothing of a message."""
    exec("\n    ".join([f"def {head}:", *lines]), scope)  # noqa: S102
    return scope[head.partition("(")[0]]  # type: ignore[no-any-return]


def _check_fields(spec: MessageSpec[T]) -> None:
    declared, made = _list_fields(spec), _list_names(spec)
    if missing := [name for name in made if name not in declared]:
        raise ValueError(f"{spec.name}: the spec lacks {', '.join(missing)} of its Struct")
    unread = [field.name for field in spec.fields if field.kind.is_read and field.name not in made]
    if unread:
        raise ValueError(f"{spec.name}: its Struct lacks {', '.join(unread)}, which the spec reads")


def _check_protobuf(spec: MessageSpec[T], proto: type[Protobuf]) -> None:
    known, made = proto.DESCRIPTOR.fields_by_name, _list_names(spec)
    lacking = [
        field.name
        for field in spec.fields
        if field.name in made and (field.path or field.name).partition(".")[0] not in known
    ]
    if lacking:
        raise ValueError(f"{spec.name}: {proto.DESCRIPTOR.full_name} lacks {', '.join(lacking)}")


def _list_fields(spec: MessageSpec[T]) -> dict[str, Field]:
    return {field.name: field for field in (*SHARED, *spec.fields, *spec.derived)}


def _list_names(spec: MessageSpec[T]) -> tuple[str, ...]:
    return spec.made.__struct_fields__  # type: ignore[attr-defined, no-any-return]


# -- The fast reader, made of the spec.
#
#     MessageSpec ──> a type for msgspec, which checks the kinds of the values while it parses
#                 ──> the source of `read_plain`, which checks the values and makes the Struct
#
# An ordinary message is JSON with the fields of its spec alone, each of its usual type, and headers
# that keep the contract. Of any other message `read_plain` returns None, and the careful reader
# reads it. The careful reader is the rule, and takes twice as long.
#
# What the fast reader needs to know of a field stands in its kind: `PlainForm` (`field_kinds`).

Forms = Mapping[str, tuple[Field, PlainForm]]

_KEPT = PlainForm(type=Raw)
_ABSENT = Raw(b"null")
_BEGIN = (
    "body = decode_plain(message, limits, decode)",
    "if body is None: return None",
    "headers = message.headers",
    "tenant_id, trace_id, msg_id = "
    "headers.get('tenant_id'), headers.get('trace_id'), headers.get('Nats-Msg-Id')",
)
# Of a header that is there the contract was checked: it holds. With a tenant's header the contract
# was asked about the message id, too.
_MESSAGE_ID = (
    "not body.msg_id",
    "(msg_id is None or tenant_id is not None or is_opaque(msg_id))",
)
_IDS_OF_BODY = (
    "if tenant_id is None and (tenant_id := body.tenant_id or None) is not None "
    "and not is_scoped(tenant_id): return None",
    "if trace_id is None and (trace_id := body.trace_id or None) is not None "
    "and not is_opaque(trace_id): return None",
)
_NAMES = {
    "decode_plain": decode_plain,
    "first_stored_ms": first_stored_ms,
    "is_opaque": is_opaque,
    "is_scoped": is_scoped,
}


def build_plain(
    spec: MessageSpec[T],
) -> Callable[[Message, WorkerMessageLimits], T | None]:
    """Return the fast reader. A part of that of an acknowledgement:

    def read_plain(message, limits):
        body = decode_plain(message, limits, decode)
        if body is None: return None
        …
        status_ = body.status
        request_id_ = body.request_id or None
        if not ((status_ in {'accepted', …}) and (request_id_ is None or …) and …): return None
        …
        return made(status=status_, request_id=request_id_, tenant_id=tenant_id, …)
    """
    forms: Forms = {field.name: (field, _find_form(spec, field)) for field in spec.fields}
    names = spec.made.__struct_fields__  # type: ignore[attr-defined]
    own = {name: forms[name] for name in names if name in forms}
    known = {*own, *(field.name for field in SHARED)}
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"{spec.name}: its fast reader knows no {', '.join(unknown)}")
    source = [
        *_BEGIN,
        *(f"{name}_ = {_build_value(*own[name])}" for name in own),
        f"if not ({' and '.join(_list_conditions(spec, own))}): return None",
        *_IDS_OF_BODY,
        f"return made({', '.join(f'{n}={n}_' if n in own else f'{n}={n}' for n in names)})",
    ]
    scope = {**_NAMES, "made": spec.made, "decode": _build_plain_decoder(spec, forms)}
    for _, form in own.values():
        scope.update(form.names)
    return _compile("read_plain(message, limits)", source, scope)


def _find_form(spec: MessageSpec[T], field: Field) -> PlainForm:
    form = _KEPT if field.name in spec.kept else field.kind.plain
    if form is None:
        raise ValueError(f"{spec.name}.{field.name}: its kind has no PlainForm for the fast reader")
    return form


def _build_value(field: Field, form: PlainForm) -> str:
    usual = "body.$" if field.is_required else "body.$ or None"
    return _name_field(form.value or usual, field)


def _name_field(text: str, field: Field) -> str:
    """A field may have any name: its value's ends with an underscore, as no other name does."""
    return text.replace("body.$", f"body.{field.name}").replace("$", f"{field.name}_")


def _list_conditions(spec: MessageSpec[T], own: Forms) -> Iterator[str]:
    for field, form in own.values():
        if form.is_usual:
            may_be_none = not field.is_required and not form.is_filled
            condition = f"$ is None or {form.is_usual}" if may_be_none else form.is_usual
            yield _name_field(f"({condition})", field)
    if len(spec.ids) > 1:
        yield f"({' or '.join(f'{name}_' for name in spec.ids)})"
    yield from _MESSAGE_ID


def _build_plain_decoder(spec: MessageSpec[T], forms: Forms) -> Callable[[bytes], PlainBody]:
    """Return what parses the body. It refuses a field that the spec does not have."""
    kept = [(name, Raw, _ABSENT) for name in sorted(spec.kept)]
    own = [
        (name, form.type) if field.is_required else (name, form.type | None, None)
        for name, (field, form) in forms.items()
        if name not in spec.kept
    ]
    made = msgspec.defstruct(
        f"Plain{spec.title}",
        [*own, *kept],
        bases=(PlainBody,),
        kw_only=True,
        forbid_unknown_fields=True,
        gc=False,
    )
    return cast(Callable[[bytes], PlainBody], msgspec.json.Decoder(made).decode)
