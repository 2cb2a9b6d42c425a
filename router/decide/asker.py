"""Which tenant asks, before its request is read: enough to give it its share, and to tell it that there is none left."""

from __future__ import annotations

from msgspec import Struct

from router.contracts.answer import failure
from router.contracts.decision import OVERLOADED
from router.contracts.flow import read_body
from router.contracts.headers import message_id_in, tenant_in
from router.contracts.malformed import Malformed
from router.decide import fields
from router.decide.read import Limits
from router.ids import is_opaque
from router.message import Message

LARGEST = 65_536  # bytes that are read for this alone; a larger request waits for its stored copy


class Asker(Struct, frozen=True, gc=False):
    """Whose request it is, and what its answer is found by."""

    tenant_id: str
    answer_id: str | None
    trace_id: str | None


def read_asker(message: Message, limits: Limits) -> Asker | None:
    """None: only its stored copy can be handled.

    That is so for what cannot be read, what is large, and an assignment that has no id of its own: its identity is its place in the
    stream, and handled twice it would be pushed twice.
    """
    if len(message.data) > LARGEST:
        return None
    try:
        return _read(message, limits)
    except Malformed:
        return None


def _read(message: Message, limits: Limits) -> Asker | None:
    headers = message.headers
    body = read_body(message.data, headers, limits.max_payload_bytes, limits.max_depth)
    inner, _ = fields.parts(body)
    tenant_id = tenant_in(headers) or fields.tenant(body, inner)
    request_id = _id(body.get("request_id")) or _id(inner.get("request_id"))
    identity = request_id or message_id_in(headers) or fields.idempotency_key(body, inner)
    if identity is None and fields.push(body.get("push_assignment")):
        return None
    answer_id = request_id or _id(body.get("message_id")) or _id(inner.get("message_id")) or message_id_in(headers)
    return Asker(tenant_id, answer_id, _id(body.get("trace_id")) or _id(inner.get("trace_id")))


def overloaded(asker: Asker, retry_after_ms: int) -> bytes:
    """The answer to a request above its tenant's share."""
    text = "More requests wait than can be answered in time; ask again later, under the same request id"
    return failure(OVERLOADED, text, {"retry_after_ms": retry_after_ms}, asker.answer_id, asker.trace_id)


def _id(value: object) -> str | None:
    return value if type(value) is str and is_opaque(value) else None
