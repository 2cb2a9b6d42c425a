"""The body of an ordinary message of a worker, parsed by msgspec into its usual fields, types
checked while it parses.

    bytes ── JSON with usual fields alone, of their usual types; headers keep the contract ──> PlainResult, PlainAck
         └── anything else ──> None: the careful reader (`worker.read`) reads it, and says what is wrong

The values are not checked here: `result` and `ack` do it, and leave what is not legal to the
careful reader too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from router.contracts.codec import LARGE_BODY_BYTES, UNREADABLE_ERRORS
from router.contracts.field_readers import MAX_INT64
from router.contracts.header_rules import violations
from router.contracts.headers import SUPPORTED_VERSIONS
from router.contracts.raw_json import check_text
from router.contracts.worker import WorkerMessageLimits
from router.core.message import Message

_LEAST_DEPTH = 8  # a setting below this leaves everything to the careful reader, which counts depth
_OPENINGS = 8
_ABSENT = Raw(b"null")


class PlainJob(Struct, forbid_unknown_fields=True, gc=False):
    type: str | None = None


class PlainBody(Struct, forbid_unknown_fields=True, gc=False):
    """The fields that every message of a worker may have, as they stand on the wire."""

    assignment_id: str | None = None
    request_id: str | None = None
    tenant_id: str | None = None
    trace_id: str | None = None
    msg_id: str | None = None
    version: str | None = None


class PlainResult(PlainBody, forbid_unknown_fields=True, kw_only=True, gc=False):
    """A result. The fields from `output` on are for others, and only kept from being unknown; an
    output of `sdk.reports` is a `payload`.
    """

    status: str
    latency_ms: int
    cost: float
    timestamp: Annotated[int, Meta(ge=0, le=MAX_INT64)] | None = None
    provider_id: str | None = None
    job: PlainJob | None = None
    job_type: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    retry_after_ms: Annotated[int, Meta(ge=0, le=MAX_INT64)] | None = None
    output: Raw = _ABSENT
    payload: Raw = _ABSENT
    payload_encoding: Any = None
    metadata: Any = None
    run_id: Any = None
    flow_id: Any = None
    step_id: Any = None


class PlainAck(PlainBody, forbid_unknown_fields=True, kw_only=True, gc=False):
    """An acknowledgement of an assignment."""

    status: str
    acknowledged_at: int | None = None
    message: str | None = None


B = TypeVar("B", bound=PlainBody)


def decode_plain(
    message: Message, limits: WorkerMessageLimits, decode: Callable[[bytes], B]
) -> B | None:
    """The body by `decode_result` or `decode_ack`; None where the careful reader must read it."""
    data, headers = message.data, message.headers
    size = len(data)
    if data[:1] != b"{" or size > limits.max_payload_bytes or size >= LARGE_BODY_BYTES:
        return None
    if limits.max_depth < _LEAST_DEPTH or data.count(b"{") + data.count(b"[") > _OPENINGS:
        return None
    try:
        check_text(data)
        body = decode(data)
    except UNREADABLE_ERRORS:
        return None
    if violations(headers, body.tenant_id):
        return None
    version = headers.get("version") or body.version
    return body if version is None or version in SUPPORTED_VERSIONS else None


decode_result = msgspec.json.Decoder(PlainResult).decode
decode_ack = msgspec.json.Decoder(PlainAck).decode
