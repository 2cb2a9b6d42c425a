"""An ordinary request, read in one pass: msgspec checks types while it parses, into structs that
hold the usual fields alone.

    bytes ── only usual fields, of their usual types ──> RequestBody ── ids and names are legal ──> RequestReading
         └── anything else ──> None: the careful reader (`read`) reads it, and says what is wrong

Headers that break the contract are no reason to read a request twice: each bad one counts as
absent. The payload is passed over, not parsed: it is its sender's (`contracts.raw_json`). The
careful reader is the rule: what this one reads, that one reads alike, which a property test says of
any bytes. It costs half.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from router.contracts.codec import LARGE_BODY_BYTES, UNREADABLE_ERRORS, may_hold_long_number
from router.contracts.header_rules import MISMATCH, Violation, violations
from router.contracts.headers import CONTROL_HEADERS, SUPPORTED_VERSIONS
from router.contracts.raw_json import RawJson, has_endless_number, has_long_integer
from router.contracts.request import NOTHING, RouteRequest
from router.contracts.usage import RESERVED_TYPES
from router.core.ids import MAX_TYPE, is_opaque
from router.core.message import Message
from router.decide.model.fields import DEFAULT_POLICY, is_scoped, merge_routing_context
from router.decide.model.reading import RequestReading

PROTOBUF = "application/x-protobuf"
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
    policy_id = body.policy_id or DEFAULT_POLICY
    if not is_scoped(policy_id):
        return None
    constraints, metadata, context = merge_routing_context(
        body.constraints or NOTHING,
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
