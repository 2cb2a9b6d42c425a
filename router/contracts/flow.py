"""The body of a decide request as one shape, JSON or protobuf
(docs/reference/contracts.md#encodings).

A protobuf RouteRequest becomes the object that the same request would be in JSON (form a), so that
there is one reader behind. Which fields it must have is that reader's to say. The payload stays as
it was written (`raw_json`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from google.protobuf.message import DecodeError
from msgspec import UNSET, Raw, Struct, UnsetType

from router.contracts.codec import (
    LARGE_BODY_BYTES,
    MAX_DEPTH,
    MAX_PAYLOAD_BYTES,
    MAX_VALUES,
    UNREADABLE_ERRORS,
    check_limits,
    oversized_payload,
    refuse_values,
)
from router.contracts.malformed import Malformed
from router.contracts.pb.beamline.flow.v1.flow_pb2 import Message, RouteRequest
from router.contracts.raw_json import RawJson, payload_of, read_around_payload

_NUMBERS = {"1": 1, "0": 0}  # a header is always text
PARTS = frozenset({"message", "task"})  # in which a payload may stand


def read_body(
    data: bytes,
    headers: Mapping[str, str],
    max_bytes: int = MAX_PAYLOAD_BYTES,
    max_depth: int = MAX_DEPTH,
    max_values: int = MAX_VALUES,
) -> dict[str, Any]:
    """The request as an object. Raises Malformed when it is neither a JSON object nor a
    RouteRequest, or beyond the limits.
    """
    if data[:1] == b"{":
        if (
            len(data) < LARGE_BODY_BYTES
            and (body := _read_small(data, max_bytes, max_depth)) is not None
        ):
            return body
        return read_around_payload(data, max_bytes, max_depth, max_values, opened=PARTS)
    if len(data) > max_bytes:
        raise oversized_payload(len(data), max_bytes)
    decoded = _decode(data, headers, max_values)
    if decoded is not None and decoded.get("message", {}).keys() & {"tenant_id", "message_id"}:
        return decoded
    try:
        # Not before: 0x0A is white space to JSON and the tag of field 1 to protobuf.
        return read_around_payload(data, max_bytes, max_depth, max_values, opened=PARTS)
    except Malformed:
        if decoded is None:
            raise
        return decoded


def _read_small(data: bytes, max_bytes: int, max_depth: int) -> dict[str, Any] | None:
    """`read_around_payload` of a small request: to parse it whole and then find its payloads costs
    half. None: it is an unusual one.
    """
    check_limits(data, max_bytes, max_depth)
    try:
        body, written = _read_whole(data), _find_payloads(data)
    except UNREADABLE_ERRORS:
        return None
    _keep_payload(body, written)
    if written.message is not None:
        _keep_payload(body["message"], written.message)
    if written.task is not None:
        _keep_payload(body["task"], written.task)
    return body


def _keep_payload(part: dict[str, Any], written: _Payload) -> None:
    if written.payload is not UNSET and part["payload"] is not None:
        part["payload"] = RawJson(bytes(written.payload))


class _Payload(Struct, gc=False):
    payload: Raw | UnsetType = UNSET


class _Payloads(_Payload, gc=False):
    message: _Payload | None = None
    task: _Payload | None = None


_read_whole = msgspec.json.Decoder(dict[str, Any]).decode
_find_payloads = msgspec.json.Decoder(_Payloads).decode


def _decode(data: bytes, headers: Mapping[str, str], max_values: int) -> dict[str, Any] | None:
    try:
        request = RouteRequest.FromString(data)
    except DecodeError:
        return None
    if len(request.context) + len(request.message.metadata) > max_values:
        raise refuse_values(max_values)
    body: dict[str, Any] = {"context": dict(request.context), "policy_id": request.policy_id}
    if request.HasField("message"):
        body["message"] = _message(request.message)
    if not any(body.values()):  # unknown fields only: bytes of something else
        return None
    push = headers.get("push_assignment") or None
    return {
        **body,
        "request_id": headers.get("request_id"),
        "push_assignment": _NUMBERS.get(push, push) if push else None,
    }


def _message(message: Message) -> dict[str, Any]:
    fields = {
        "message_id": message.message_id,
        "tenant_id": message.tenant_id,
        "trace_id": message.trace_id,
        "message_type": message.message_type,
        "payload": payload_of(message.payload) if message.payload else None,
        "metadata": dict(message.metadata),
        "timestamp_ms": message.timestamp_ms,
    }
    # proto3 does not tell empty from absent
    return {name: value for name, value in fields.items() if value}
