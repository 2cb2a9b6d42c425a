"""Five forms of a decide request, one RouteRequest (docs/reference/contracts.md#decide-requests).

    a  message{tenant_id, message_type, payload …}, policy_id, context
    b  task{type, payload | payload_ref}, tenant_id, request_id …
    c  message{…} with tenant_id, trace_id, request_id, version beside it
    d  all of it at the top level
    e  protobuf, which `contracts.flow` has turned into a

    read ── only usual fields, of their usual types ──> `read_plain`, at half the cost
      └──── anything else ──> `read_carefully`, which says what is wrong

Nothing raises: a request that cannot be taken is a Fault, beside whatever ids could be read for its
answer. Whether the tenant may ask, and whether it asked before, is the handler's to say.
The careful reader is the rule: what `read_plain` reads, it reads alike, which a property test says
of any bytes. It has straight lines for what most requests carry, and `fields` for the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from router.contracts.codec import (
    LARGE_BODY_BYTES,
    MAX_DEPTH,
    MAX_PAYLOAD_BYTES,
    MAX_VALUES,
    UNREADABLE_ERRORS,
    may_hold_long_number,
)
from router.contracts.decision import NO_HINTS, NOTHING, RESERVED_TYPES, RouteRequest
from router.contracts.extract import find_answer_id, ids_in, place_of
from router.contracts.flow import read_body
from router.contracts.header_rules import MISMATCH, Violation, control_violations, violations
from router.contracts.headers import (
    CONTROL_HEADERS,
    SUPPORTED_VERSIONS,
    find_control_header,
    message_id_in,
)
from router.contracts.malformed import (
    HEADER_CONTRACT_VIOLATION,
    STAGE_HEADERS,
    Malformed,
    invalid_field,
)
from router.contracts.raw_json import RawJson, has_endless_number, has_long_integer
from router.core import ids
from router.core.ids import MAX_TYPE, is_opaque
from router.core.message import Message
from router.core.outcome import Fault
from router.decide.model import fields
from router.decide.model.fields import DEFAULT_POLICY, RARE, Object, is_scoped, read_id, read_object
from router.decide.model.hints import PLAIN, hints_of, translate_place

PROTOBUF = "application/x-protobuf"


class RequestReading(Struct, frozen=True, gc=False):
    """The request, or why it is invalid; and the ids for the answer's context and headers in both
    cases.
    """

    asked: RouteRequest | Fault
    answer_id: str
    trace_id: str | None
    tenant_id: str | None
    violations: tuple[Violation, ...] = ()
    hints: Mapping[str, str] = NO_HINTS  # of a Fault; a request has its own


class RequestLimits(Struct, frozen=True, kw_only=True):
    """What a request may be. `strict`: any violation of the header contract refuses it."""

    max_payload_bytes: int = MAX_PAYLOAD_BYTES
    max_depth: int = MAX_DEPTH
    max_values: int = MAX_VALUES  # beside the payload
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


# -- An ordinary request, read in one pass: msgspec checks types while it parses, into structs
# that hold the usual fields alone.
#
# Headers that break the contract are no reason to read a request twice: each bad one counts as
# absent. The payload is passed over, not parsed: it is its sender's (`contracts.raw_json`).

_NULL = b"null"
_ABSENT = Raw(_NULL)


class RequestPart(Struct, forbid_unknown_fields=True, gc=False):
    """The `message` of a request."""

    message_type: str | None = None
    payload: Raw = _ABSENT
    message_id: str | None = None
    tenant_id: str | None = None
    trace_id: str | None = None
    request_id: str | None = None
    version: str | None = None
    metadata: dict[str, Any] | None = None


class TaskPart(Struct, forbid_unknown_fields=True, gc=False):
    type: str
    payload: Raw


class RequestBody(RequestPart, forbid_unknown_fields=True, gc=False):
    """The top level; of a flat request it is the `message` too."""

    message: RequestPart | None = None
    task: TaskPart | None = None
    policy_id: str | None = None
    context: dict[str, Any] | None = None
    constraints: dict[str, Any] | None = None
    push_assignment: bool | None = None


_NO_PART = RequestPart()
_decode = msgspec.json.Decoder(RequestBody).decode


def read_plain(message: Message, max_bytes: int, max_depth: int) -> RequestReading | None:
    """The request, and which rules its headers break; None where the careful reader must read it."""
    data, headers = message.data, message.headers
    size = len(data)
    if (
        data[:1] != b"{"
        or size > max_bytes
        or size >= LARGE_BODY_BYTES
        or data.count(b"{") + data.count(b"[") > max_depth
    ):
        return None
    try:
        data.isascii() or data.decode()  # `check_text` in place
        body = _decode(data)
    except UNREADABLE_ERRORS:
        return None
    inner = body.message or (body if body.task is None else _NO_PART)
    if may_hold_long_number(data) and _breaks_bounds(data, body, inner):
        return None
    broken: tuple[Violation, ...] = ()
    if headers:
        if not CONTROL_HEADERS.isdisjoint(headers):
            return None
        broken = violations(headers, body.tenant_id or inner.tenant_id)
    version = headers.get("version") or (inner.version if body.version is None else body.version)
    if version is not None and version not in SUPPORTED_VERSIONS:
        return None
    request = _build_request(_drop_broken(headers, broken) if broken else headers, body, inner)
    return (
        None
        if request is None
        else RequestReading(request, request.answer_id, request.trace_id, request.tenant_id, broken)
    )


def _breaks_bounds(data: bytes, body: RequestBody, inner: RequestPart) -> bool:
    """Whether a number that Router reads, or one of the payload, has more digits than it may."""
    read = (body.constraints, body.metadata, inner.metadata, body.context)
    return has_endless_number(data) or any(map(has_long_integer, read))


def _drop_broken(headers: Mapping[str, str], broken: tuple[Violation, ...]) -> Mapping[str, str]:
    """The headers without the bad ones. A tenant that contradicts the payload's is legal, and
    holds.
    """
    kept = dict(headers)
    for violation in broken:
        if violation != MISMATCH:
            kept.pop(violation[0], None)
    return kept


def _build_request(
    headers: Mapping[str, str], body: RequestBody, inner: RequestPart
) -> RouteRequest | None:
    """Of equal fields the header's counts, then the top level's, then the part's. No contract
    header here is empty or malformed.
    """
    tenant_id, trace_id, header_id = (
        headers.get("tenant_id"),
        headers.get("trace_id"),
        headers.get("Nats-Msg-Id"),
    )
    # with a tenant's header the contract was asked about the id too
    is_id_checked = header_id is None or tenant_id is not None
    if tenant_id is None and not (
        (tenant_id := body.tenant_id or inner.tenant_id) and is_scoped(tenant_id)
    ):
        return None
    if (
        trace_id is None
        and (trace_id := body.trace_id or inner.trace_id or None) is not None
        and not is_opaque(trace_id)
    ):
        return None
    message_type, payload = inner.message_type, inner.payload
    if (task := body.task) is not None:
        if body.message is not None:
            return None
        message_type, payload = task.type, task.payload
    text = bytes(payload)
    if (
        text == _NULL
        or not message_type
        or len(message_type) > MAX_TYPE
        or message_type in RESERVED_TYPES
    ):
        return None
    request_id, given_id = (
        body.request_id or inner.request_id or None,
        body.message_id or inner.message_id or None,
    )
    key = request_id or header_id
    if (
        not key
        or not is_opaque(key)
        or not (given_id in (None, header_id, key) or is_opaque(given_id))
    ):
        return None
    if not (is_id_checked or header_id is None or header_id == key or is_opaque(header_id)):
        return None
    policy_id, limits = body.policy_id or DEFAULT_POLICY, body.constraints
    if not is_scoped(policy_id) or (limits and not fields.are_usual(limits)):
        return None
    constraints, metadata, context = merge_routing_context(
        limits or NOTHING,
        body.metadata or NOTHING,
        inner.metadata or NOTHING,
        body.context or NOTHING,
    )
    return RouteRequest(
        tenant_id=tenant_id,
        message_type=message_type,
        payload=RawJson(text),
        request_key=key,
        answer_id=request_id or given_id or key,
        policy_id=policy_id,
        request_id=request_id,
        message_id=header_id or given_id,
        trace_id=trace_id,
        context=context,
        constraints=constraints,
        metadata=metadata,
        push_assignment=body.push_assignment is True,
        wants_protobuf=headers.get("Accept") == PROTOBUF,
    )


# -- Any other request.


def read_carefully(message: Message, limits: RequestLimits = DEFAULT_LIMITS) -> RequestReading:
    """`read` of any message, and the rule for what `read_plain` reads."""
    headers = message.headers
    body: Object = NOTHING
    broken: tuple[Violation, ...] | None = None
    try:
        body = read_body(
            message.data, headers, limits.max_payload_bytes, limits.max_depth, limits.max_values
        )
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
        request = _build_carefully(message, body, inner, task, limits)
    except Malformed as refused:
        return _refuse(message, body, refused, limits, broken)
    return RequestReading(request, request.answer_id, request.trace_id, request.tenant_id, broken)


def _build_carefully(
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

    is_plain = PLAIN.issuperset(body) and PLAIN.issuperset(inner) and PLAIN.issuperset(task)
    rare: Object = NOTHING
    if not is_plain and _has_rare(body, inner, task):
        rare = fields.read_rare_fields(body, inner, task, limits.assignment_subjects)
    key = rare.get("idempotency_key") or request_id or header_id or place_of(message)
    constraints, metadata, context = read_routing_context(body, inner)
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
    # last, because a refusal looks for them itself
    may_be_misspelt = not is_plain or (constraints and not fields.are_usual(constraints))
    if may_be_misspelt and (hints := hints_of(body, inner, task)):
        rare = {**rare, "hints": hints}
    if not rare:
        return request
    if rare.get("return_message"):
        fields.check_return_message(request)
    return replace(request, **rare)


def _has_rare(body: Object, inner: Object, task: Object) -> bool:
    return not (RARE.isdisjoint(body) and RARE.isdisjoint(inner) and RARE.isdisjoint(task))


def _contract_broken(broken: tuple[Violation, ...]) -> Malformed:
    names = ", ".join(f"{header} ({rule})" for header, rule in broken)
    return Malformed(
        HEADER_CONTRACT_VIOLATION, f"Header contract broken: {names}", STAGE_HEADERS, broken[0][0]
    )


def _refuse(
    message: Message,
    body: Object,
    refused: Malformed,
    limits: RequestLimits,
    broken: tuple[Violation, ...] | None,
) -> RequestReading:
    """A Fault, with the ids that could be read: its answer and its dead letter must be found again.
    `broken`: None where the headers were not looked at.
    """
    seen = ids_in(message.headers, body)
    tenant_id = seen.get("tenant_id")
    answer_id = find_answer_id(seen, message.headers, place_of(message))
    if broken is None:
        inner = body.get("message")
        payload_tenant = body.get("tenant_id") or (
            inner.get("tenant_id") if isinstance(inner, dict) else None
        )
        broken = violations(message.headers, payload_tenant)
    if limits.refuses_control_headers:
        broken += control_violations(message.headers)
    fault = translate_place(refused, body).as_fault()
    if body is not NOTHING:  # else more of it may be read for its ids alone
        fault = replace(fault, ids=seen)
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


def read_routing_context(body: Object, inner: Object) -> tuple[Object, Object, Object]:
    """(constraints, metadata, context): of constraints, metadata, message.metadata and context the
    later wins.
    """
    constraints = fields.read_constraints(body.get("constraints"))
    metadata = read_object(body.get("metadata"), "metadata")
    own = read_object(inner.get("metadata"), "message.metadata") if inner is not body else metadata
    context = read_object(body.get("context"), "context")
    return merge_routing_context(constraints, metadata, own, context)


def merge_routing_context(
    constraints: Object, metadata: Object, own: Object, context: Object
) -> tuple[Object, Object, Object]:
    """`own`: the metadata of the `message`, which is the top level's in a flat request."""
    if own and own is not metadata:
        metadata = {**metadata, **own} if metadata else own
    if constraints:
        context = {**constraints, **metadata, **context}
    elif metadata:
        context = {**metadata, **context} if context else metadata
    return constraints, metadata, context
