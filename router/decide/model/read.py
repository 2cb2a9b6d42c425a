"""Five forms of a decide request, one RouteRequest (docs/reference/contracts.md#decide-requests).

    a  message{tenant_id, message_type, payload …}, policy_id, context
    b  task{type, payload | payload_ref}, tenant_id, request_id …
    c  message{…} with tenant_id, trace_id, request_id, version beside it
    d  all of it at the top level
    e  protobuf, which `contracts.flow` has turned into a

Nothing raises: a request that cannot be taken is a Fault, beside whatever ids could be read for its
answer. Whether the tenant may ask, and whether it asked before, is the handler's to say. An
ordinary request is read by `read_plain`; here is the reader of all others: straight lines for what
most of them carry, `fields` for the rest. Before it stand two things that an answer tells its
sender: the place of a wrong field, and the name that was probably meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from router.contracts.codec import MAX_DEPTH, MAX_PAYLOAD_BYTES
from router.contracts.extract import find_answer_id, ids_in, place_of
from router.contracts.flow import read_body
from router.contracts.header_rules import Violation, control_violations, violations
from router.contracts.headers import SUPPORTED_VERSIONS, find_control_header, message_id_in
from router.contracts.malformed import (
    HEADER_CONTRACT_VIOLATION,
    STAGE_HEADERS,
    Malformed,
    invalid_field,
)
from router.contracts.request import NO_HINTS, NOTHING, RouteRequest
from router.contracts.usage import RESERVED_TYPES
from router.core import ids
from router.core.ids import is_opaque
from router.core.message import Message
from router.decide.model import fields
from router.decide.model.fields import RARE, Object, read_id
from router.decide.model.read_plain import PROTOBUF, read_plain
from router.decide.model.reading import RequestReading

# -- The reader.


class RequestLimits(Struct, frozen=True, kw_only=True):
    """What a request may be. `strict`: any violation of the header contract refuses it."""

    max_payload_bytes: int = MAX_PAYLOAD_BYTES
    max_depth: int = MAX_DEPTH
    assignment_subjects: tuple[str, ...] = ("caf.exec.assign.v1",)
    strict: bool = False
    # False where requests are published with a PubAck: there they are the publisher's right
    refuses_control_headers: bool = True


DEFAULT_LIMITS = RequestLimits()


def read(message: Message, limits: RequestLimits = DEFAULT_LIMITS) -> RequestReading:
    """One stored message as a request. A Fault's `code` is a dead letter's validation code, its
    `field` a place in the RouteRequest.
    """
    reading = read_plain(message, limits.max_payload_bytes, limits.max_depth)
    if reading is None or (reading.violations and limits.strict):
        return read_carefully(message, limits)
    return reading


def read_carefully(message: Message, limits: RequestLimits = DEFAULT_LIMITS) -> RequestReading:
    """`read` of any message, and the rule for what `read_plain` reads."""
    headers = message.headers
    body: Object = NOTHING
    try:
        body = read_body(message.data, headers, limits.max_payload_bytes, limits.max_depth)
        inner, task = fields.split_parts(body)
        broken = violations(headers, body.get("tenant_id") or inner.get("tenant_id"))
        version = headers.get("version")
        if version not in SUPPORTED_VERSIONS:
            fields.check_version(version, body, inner)
        if broken and limits.strict:
            raise _contract_broken(broken)
        # A `no_ack` stream refuses most of these without a word, and the listener says so; here one
        # was taken all the same.
        if limits.refuses_control_headers and (control := find_control_header(headers)) is not None:
            raise invalid_field(
                control, control, "absent: JetStream's control headers are not a requester's"
            )
        request = _build_request(message, body, inner, task, limits)
    except Malformed as refused:
        return _refuse(message, body, refused, limits)
    return RequestReading(request, request.answer_id, request.trace_id, request.tenant_id, broken)


def _build_request(
    message: Message, body: Object, inner: Object, task: Object, limits: RequestLimits
) -> RouteRequest:
    headers = message.headers
    tenant_id = headers.get("tenant_id")
    if not tenant_id or not fields.is_scoped(tenant_id):
        tenant_id = fields.read_tenant(body, inner)
    message_type = inner.get("message_type")
    if (
        type(message_type) is not str
        or not 1 <= len(message_type) <= ids.MAX_TYPE
        or message_type in RESERVED_TYPES
    ):
        message_type = fields.read_message_type(inner, task)
    trace_id = headers.get("trace_id")
    if not trace_id or not is_opaque(trace_id):
        trace_id = read_id("trace_id", "message.trace_id", body, inner)
    request_id = body.get("request_id")
    if type(request_id) is not str or not is_opaque(request_id):
        request_id = read_id("request_id", "request_id", body, inner)
    given_id = read_id("message_id", "message.message_id", body, inner)
    header_id = message_id_in(headers)

    rare: Object = NOTHING
    if not (PLAIN.issuperset(body) and PLAIN.issuperset(inner) and PLAIN.issuperset(task)):
        rare = _read_rare(body, inner, task, limits.assignment_subjects)
    key = rare.get("idempotency_key") or request_id or header_id or place_of(message)
    constraints, metadata, context = fields.read_routing_context(body, inner)
    # Fifteen keywords: from sixteen on CPython builds a dict for the call, which costs more than
    # all that is read here.
    request = RouteRequest(
        tenant_id=tenant_id,
        message_type=message_type,
        payload=fields.read_payload(inner, task),
        request_key=key,
        answer_id=request_id or given_id or header_id or ids.derived_uuid(tenant_id, key),
        policy_id=fields.read_policy_id(body),
        request_id=request_id,
        message_id=header_id or given_id,
        trace_id=trace_id,
        context=context,
        constraints=constraints,
        metadata=metadata,
        timestamp_ms=fields.read_timestamp(body, inner),
        push_assignment=fields.read_push(body.get("push_assignment")),
        wants_protobuf=headers.get("Accept") == PROTOBUF,
    )
    return replace(request, **rare) if rare else request


def _read_rare(
    body: Object, inner: Object, task: Object, allowed_subjects: tuple[str, ...]
) -> Object:
    """Of a request that carries more than most: its further fields, and what looks like one."""
    rare: dict[str, object] = {}
    if not (RARE.isdisjoint(body) and RARE.isdisjoint(inner) and RARE.isdisjoint(task)):
        rare = fields.read_rare_fields(body, inner, task, allowed_subjects)
    if hints := hints_of(body, inner, task):
        rare["hints"] = hints
    return rare


def _contract_broken(broken: tuple[Violation, ...]) -> Malformed:
    names = ", ".join(f"{header} ({rule})" for header, rule in broken)
    return Malformed(
        HEADER_CONTRACT_VIOLATION, f"Header contract broken: {names}", STAGE_HEADERS, broken[0][0]
    )


def _refuse(
    message: Message, body: Object, refused: Malformed, limits: RequestLimits
) -> RequestReading:
    """A Fault, with the ids that could be read: its answer and its dead letter must be found again."""
    seen = ids_in(message.headers, body)
    tenant_id = seen.get("tenant_id")
    answer_id = find_answer_id(seen, message.headers, place_of(message))
    inner = body.get("message")
    payload_tenant = body.get("tenant_id") or (
        inner.get("tenant_id") if isinstance(inner, dict) else None
    )
    broken = violations(message.headers, payload_tenant)
    if limits.refuses_control_headers:
        broken += control_violations(message.headers)
    fault = translate_place(refused, body).as_fault()
    return RequestReading(
        fault, answer_id, seen.get("trace_id"), tenant_id, broken, _hints_in(body)
    )


def _hints_in(body: Object) -> Mapping[str, str]:
    inner, task = body.get("message"), body.get("task")
    return hints_of(
        body,
        inner if isinstance(inner, dict) else body,
        task if isinstance(task, dict) else NOTHING,
    )


# -- The place of a wrong field as its sender wrote it: readers name the RouteRequest's place, a
# requester may use another form.
#
# task form     message.message_type  ->  task.type         message.tenant_id  ->  tenant_id
# flat          message.message_type  ->  message_type
# beside        message.tenant_id     ->  tenant_id, where it stands beside `message` and so is what
# was read

_MESSAGE = "message."
_NAME_IN_TASK = {"message_type": "type", "payload": "payload", "payload_ref": "payload_ref"}
_EITHER = ("request_id", "idempotency_key")  # named without `message`, and read there too
# read from `message` where there is one, never from beside it
_OF_CONTENT = frozenset({*_NAME_IN_TASK, "metadata"})


def translate_place(refused: Malformed, body: Object) -> Malformed:
    """The same error with its place in the form of this request."""
    field = refused.field
    place = _place(field, body) if field is not None else None
    if place is None or place == field:
        return refused
    text = str(refused)
    if place.startswith("task."):  # a name that the sender did not write
        text = text.replace(
            f" field: {(field or '').removeprefix(_MESSAGE)}", f" field: {place}", 1
        )
    return Malformed(refused.code, text, refused.stage, place)


def _place(field: str, body: Object) -> str:
    inner, task = body.get("message"), body.get("task")
    name = field.removeprefix(_MESSAGE)
    if not field.startswith(_MESSAGE):
        is_within = (
            field in _EITHER and isinstance(inner, dict) and field in inner and field not in body
        )
        return _MESSAGE + field if is_within else field
    if (
        isinstance(task, dict)
        and name in _NAME_IN_TASK
        and (not isinstance(inner, dict) or (_NAME_IN_TASK[name] in task and name not in inner))
    ):
        return f"task.{_NAME_IN_TASK[name]}"
    if isinstance(inner, dict):
        return name if name not in _OF_CONTENT and body.get(name) not in (None, "") else field
    return name


# -- Hints for unknown names that look like a field: `polcy_id`, `policyId`. They are ignored,
# and the answer says so.
#
# One letter too many, too few, another one, or two that changed places; capitals, `-` and `_`
# count for nothing. Every known name is looked up by what is left of it without any one letter,
# so a name costs as many lookups as it has letters, whatever it is like.

MOST_HINTS = 4  # in one answer
MOST_NAMES = 64  # of one object that are looked at
MAX_NAME_LENGTH = 64  # letters of a name that is looked at
MIN_KNOWN_LENGTH = 5  # letters of a known name that a misspelled one may be like

_ANYWHERE = frozenset(
    {
        "tenant_id",
        "message_type",
        "type",
        "payload",
        "message_id",
        "request_id",
        "trace_id",
        "version",
        "schema_version",
    }
)
# What most requests carry: of one that has nothing else no name is looked at.
PLAIN = _ANYWHERE | {
    "message",
    "task",
    "policy_id",
    "context",
    "constraints",
    "metadata",
    "push_assignment",
    "timestamp_ms",
}
_KNOWN_OF_TASK = frozenset({"type", "payload", "payload_ref", "payload_encoding"})


def hints_of(body: Object, inner: Object, task: Object) -> Mapping[str, str]:
    """The field that was probably meant, by the place of each such name."""
    parts = [("", body, _KNOWN_AT_TOP), ("task.", task, _KNOWN_IN_TASK)]
    if inner is not body:
        parts.append(("message.", inner, _KNOWN_AT_TOP))
    found = {
        f"{place}{name}": f"{place}{meant}"
        for place, part, known in parts
        for name, meant in _hints(part, known)
    }
    return dict(islice(found.items(), MOST_HINTS)) if found else NO_HINTS


def _hints(part: Object, known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in islice(part, MOST_NAMES):
        if name in PLAIN or name in RARE or len(name) > MAX_NAME_LENGTH:
            continue
        meant = _find_meant(name, known)
        if meant is not None and meant not in part:
            yield name, meant


def _find_meant(name: str, known: Mapping[str, str]) -> str | None:
    return next((known[variant] for variant in _variants(_normal(name)) if variant in known), None)


def _normal(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _variants(name: str) -> Iterator[str]:
    """The name, and what is left of it without any one letter."""
    yield name
    for at in range(len(name)):
        yield name[:at] + name[at + 1 :]


def _index_names(names: Iterable[str]) -> Mapping[str, str]:
    known: dict[str, str] = {}
    for name in sorted(names):
        normal = _normal(name)
        for variant in _variants(normal) if len(normal) >= MIN_KNOWN_LENGTH else (normal,):
            known.setdefault(variant, name)
    return known


_KNOWN_AT_TOP = _index_names(PLAIN | RARE)
_KNOWN_IN_TASK = _index_names(_KNOWN_OF_TASK)
