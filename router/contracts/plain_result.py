"""The body of an ordinary result, parsed by msgspec into the fields that results usually have, types checked while it parses.

    bytes ── JSON with usual fields alone, of their usual types; headers keep the contract ──> PlainResult
         └── anything else ──> None: the careful reader (`result`) reads it, and says what is wrong

The values are not checked here: `result.read_result` does it, and leaves what is not legal to the careful reader too.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from router.contracts.codec import LARGE_BODY_BYTES, UNREADABLE_ERRORS
from router.contracts.header_rules import violations
from router.contracts.headers import SUPPORTED_VERSIONS
from router.contracts.worker import WorkerMessageLimits
from router.core.message import Message

_LEAST_DEPTH = 8  # a setting below this leaves everything to the careful reader, which counts depth
_OPENINGS = 8


class PlainJob(Struct, forbid_unknown_fields=True, gc=False):
    type: str | None = None


class PlainResult(Struct, forbid_unknown_fields=True, gc=False):
    """The fields of a result as they stand on the wire. Those from `output` on are for others, and only kept from being unknown."""

    status: str
    latency_ms: int
    cost: float
    assignment_id: str | None = None
    request_id: str | None = None
    timestamp: int | None = None
    tenant_id: str | None = None
    provider_id: str | None = None
    job: PlainJob | None = None
    job_type: str | None = None
    trace_id: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    msg_id: str | None = None
    version: str | None = None
    output: Any = None
    metadata: Any = None
    run_id: Any = None
    flow_id: Any = None
    step_id: Any = None


def decode_plain(message: Message, limits: WorkerMessageLimits) -> PlainResult | None:
    """The body; None where the careful reader must read it."""
    data, headers = message.data, message.headers
    size = len(data)
    if data[:1] != b"{" or size > limits.max_payload_bytes or size >= LARGE_BODY_BYTES:
        return None
    if limits.max_depth < _LEAST_DEPTH or data.count(b"{") + data.count(b"[") > _OPENINGS:
        return None
    try:
        body = _decode(data)
    except UNREADABLE_ERRORS:
        return None
    if violations(headers, body.tenant_id):
        return None
    version = headers.get("version") or body.version
    return body if version is None or version in SUPPORTED_VERSIONS else None


_decode = msgspec.json.Decoder(PlainResult).decode
