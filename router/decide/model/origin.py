"""A request's tenant and ids, read before the request itself: enough for the tenant's share, and
for an answer that refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import msgspec.json
import orjson
from msgspec import Struct
from msgspec.structs import replace

from router.contracts.answer import failure
from router.contracts.decision import OVERLOADED
from router.contracts.extract import digest_of
from router.contracts.flow import read_body
from router.contracts.headers import message_id_in, tenant_in
from router.contracts.malformed import Malformed, invalid_field
from router.core.ids import derived_uuid, is_opaque
from router.core.message import NO_HEADERS
from router.decide.model import fields
from router.decide.model.read import RequestLimits

# no tenant's name: the share of all that are not served here, however many names they make up
NOT_SERVED = "_not_served"
# bytes that are read for this alone; a larger request waits for its stored copy
MAX_ORIGIN_BYTES = 65_536


NONE: Set[str] = frozenset()


class _Ids(Struct, gc=False):
    tenant_id: str | None = None
    request_id: str | None = None
    trace_id: str | None = None


class _Body(_Ids, gc=False):
    message: _Ids | None = None
    policy_id: str | None = None


_decode = msgspec.json.Decoder(_Body).decode


class RequestOrigin(Struct, frozen=True, gc=False):
    """The tenant and the policy of a request, and the ids that its answer bears; `unnamed`: the
    bytes of one without an id.
    """

    tenant_id: str
    answer_id: str | None
    trace_id: str | None
    policy_id: str = fields.DEFAULT_POLICY
    unnamed: bytes = b""


def read_origin(
    data: bytes, headers: Mapping[str, str], limits: RequestLimits, served: Set[str] = NONE
) -> RequestOrigin | None:
    """Whose request it is; None: only its stored copy can be handled. `served`: the tenants that
    are, all where it is empty.

    That is so for what cannot be read, what is large, and an assignment that has no id of its own:
    its identity is its place in the stream, and handled twice it would be pushed twice.
    """
    origin = glance_origin(data, headers, served)
    if origin is not None or len(data) > MAX_ORIGIN_BYTES:
        return origin
    try:
        origin = _read(data, headers, limits)
    except Malformed:
        return None
    if served and origin is not None and origin.tenant_id not in served:
        return replace(origin, tenant_id=NOT_SERVED)
    return origin


def glance_origin(
    data: bytes, headers: Mapping[str, str] = NO_HEADERS, served: Set[str] = NONE
) -> RequestOrigin | None:
    """`read_origin` for a JSON request with a good request id: a flood comes this way, at a third
    of the cost. None: call `read_origin`.
    """
    if len(data) > MAX_ORIGIN_BYTES:
        return None
    try:
        body = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    inner = body.message or body
    tenant_id = (tenant_in(headers) if headers else None) or body.tenant_id or inner.tenant_id
    answer_id, trace_id = body.request_id or inner.request_id, body.trace_id or inner.trace_id
    if (
        answer_id is None
        or tenant_id is None
        or not fields.is_scoped(tenant_id)
        or not is_opaque(answer_id)
    ):
        return None
    if trace_id is not None and not is_opaque(trace_id):
        trace_id = None
    if served and tenant_id not in served:
        tenant_id = NOT_SERVED
    return RequestOrigin(tenant_id, answer_id, trace_id, body.policy_id or fields.DEFAULT_POLICY)


def _read(data: bytes, headers: Mapping[str, str], limits: RequestLimits) -> RequestOrigin | None:
    body = _body(data, headers, limits)
    inner = body.get("message")
    if type(inner) is not dict:
        inner = body
    tenant_id = header_id = None
    if headers:
        tenant_id, header_id = tenant_in(headers), message_id_in(headers)
    if tenant_id is None:
        tenant_id = fields.read_tenant(body, inner)
    answer_id = _id("request_id", body, inner)
    if answer_id is None:
        if header_id is None and _pushes(body) and fields.read_idempotency_key(body, inner) is None:
            return None
        answer_id = _id("message_id", body, inner) or header_id
    policy_id = body.get("policy_id")
    named = policy_id if type(policy_id) is str and policy_id else fields.DEFAULT_POLICY
    return RequestOrigin(
        tenant_id,
        answer_id,
        _id("trace_id", body, inner),
        named,
        b"" if answer_id is not None else data,
    )


def _body(data: bytes, headers: Mapping[str, str], limits: RequestLimits) -> dict[str, Any]:
    """The body as the handler reads it, without the handler's checks."""
    if data[:1] != b"{":
        return read_body(
            data, headers, limits.max_payload_bytes, limits.max_depth, limits.max_values
        )
    try:
        body: dict[str, Any] = orjson.loads(data)
    except orjson.JSONDecodeError as exc:
        raise invalid_field("message", "message", "a JSON object") from exc
    return body


def _pushes(body: dict[str, Any]) -> bool:
    return fields.read_push(body.get("push_assignment"))


def _id(name: str, body: dict[str, Any], inner: dict[str, Any]) -> str | None:
    value = body.get(name) or inner.get(name)
    return value if value is not None and type(value) is str and is_opaque(value) else None


_REFUSAL = failure(
    OVERLOADED,
    "More requests wait than can be answered in time; ask again later, under the same request id",
    None,
    "",
)
# once: this is said to a flood, a message at a time
_HEAD = _REFUSAL.partition(b'"},"context":{')[0]


def build_overload_answer(asker: RequestOrigin, retry_after_ms: int) -> bytes:
    """The answer to a request above its tenant's share."""
    if asker.answer_id is None:  # only now: most requests are answered, and need none
        asker = replace(asker, answer_id=derived_uuid(asker.tenant_id, digest_of(asker.unnamed)))
    if (
        asker.trace_id is None
        and asker.answer_id is not None
        and '"' not in asker.answer_id
        and "\\" not in asker.answer_id
    ):
        return b'%b","details":{"retry_after_ms":%d}},"context":{"request_id":"%b"}}' % (
            _HEAD,
            retry_after_ms,
            asker.answer_id.encode(),
        )
    context: dict[str, str | None] = {"request_id": asker.answer_id}
    if asker.trace_id is not None:
        context["trace_id"] = asker.trace_id
    return b'%b","details":{"retry_after_ms":%d}},"context":%b}' % (
        _HEAD,
        retry_after_ms,
        orjson.dumps(context),
    )
