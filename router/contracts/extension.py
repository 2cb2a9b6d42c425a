"""An extension as it is called, on `beamline.ext.{pre|validate|post}.{id}.{version}` (docs/reference/extensions.md#calls).

    request     {trace_id, tenant_id, payload, metadata{…, policy_id}, config}; `payload` is the
                message:
                {message_id, message_type, payload, payload_encoding?, payload_ref?, metadata}
    pre, post   {payload{payload, metadata?, …}, metadata?}
    validator   {status: ok | reject, reason?, details?}; `valid: false` reads as reject
    error       headers Nats-Service-Error-Code and Nats-Service-Error, as the NATS service protocol
                has them; Router-Fault says
                whose it was (request | service | rate_limit | answer) where the number does not; Router-Retry-After-Ms goes with a
                rate limit

A post-processor sees what was decided under `metadata.decision`. A message of at most 1 MiB,
metadata of at most 64 KiB, both ways. `Router-Deadline-Ms` tells how many milliseconds are left
when the request is sent: a span and no moment, for two hosts' clocks differ by more than a call
takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import orjson
from msgspec import Raw, Struct

from router.contracts.answer import decision_bytes
from router.contracts.codec import (
    MAX_DEPTH,
    MAX_PAYLOAD_BYTES,
    UNREADABLE_ERRORS,
    bytes_of,
    describe_unreadable,
    is_deeper,
    may_hold_long_number,
    text_of,
)
from router.contracts.decision import NOTHING, RESERVED, RESERVED_TYPES, Decision, RouteRequest
from router.contracts.raw_json import (
    MAX_DIGITS,
    NULL,
    RawJson,
    has_endless_number,
    has_long_integer,
    payload_of,
)
from router.core.errors import Poison
from router.core.ids import MAX_TYPE

MAX_METADATA_BYTES = 64 * 1024
DEADLINE = "Router-Deadline-Ms"
# Of the request of a stream: how often its reader takes a tick. And of a tick, which has no body.
TICK = "Router-Tick-Ms"
TICK_MS = 300  # what Router's own readers ask for
SERVICE_ERROR_CODE = "Nats-Service-Error-Code"
SERVICE_ERROR = "Nats-Service-Error"
FAULT = "Router-Fault"
RETRY_AFTER = "Router-Retry-After-Ms"

OK = "ok"
REJECT = "reject"


def read_tick_s(headers: Mapping[str, str]) -> float | None:
    """Seconds between ticks, 0.1 to 60; None: the reader takes none."""
    value = headers.get(TICK, "")
    is_count = value.isascii() and value.isdigit() and len(value) <= 5
    return int(value) / 1000 if is_count and 100 <= int(value) <= 60_000 else None


class InvalidExtensionMessage(Poison):
    """Bytes that are no such message: too large, no JSON, or of another shape. Asking again would
    not mend them.
    """

    code = "extension_error"


class ExtensionMessage(Struct, frozen=True, kw_only=True, gc=False):
    """The message inside a request or an answer."""

    # any JSON value as it was written; bytes where they are not UTF-8; None: null
    payload: RawJson | bytes | None
    message_type: str | None = None
    message_id: str | None = None
    payload_ref: str | None = None
    metadata: dict[str, Any] | None = None


class ExtensionRequest(Struct, frozen=True, kw_only=True):
    """What an author's function is asked."""

    trace_id: str
    tenant_id: str
    message: ExtensionMessage
    metadata: Mapping[str, Any]
    config: Mapping[str, Any]


class ProcessorAnswer(Struct, frozen=True, gc=False):
    """What a pre- or post-processor answered."""

    message: ExtensionMessage
    metadata: Mapping[str, Any]


class ValidatorAnswer(Struct, frozen=True, gc=False):
    is_ok: bool
    reason: str | None = None
    details: object = None


# -- the router's side: asking ---------------------------------------------------------------------


def message_bytes(request: RouteRequest) -> bytes:
    """The request's message. Raises InvalidExtensionMessage above 1 MiB."""
    # an author may count on an id
    return content_bytes(request, {"message_id": request.message_id or request.answer_id})


def content_bytes(request: RouteRequest, body: dict[str, object]) -> bytes:
    """What the message says, behind the fields of `body`. Raises InvalidExtensionMessage above
    1 MiB.
    """
    payload = request.payload
    body["message_type"] = request.message_type
    body["payload"] = orjson.Fragment(payload.data) if type(payload) is RawJson else payload
    if isinstance(payload, bytes):
        body["payload"], encoding = text_of(payload)
        if encoding is not None:
            body["payload_encoding"] = encoding
    if request.payload_ref is not None:
        body["payload_ref"] = request.payload_ref
    body["metadata"] = request.metadata
    return _check_size(orjson.dumps(body, default=dict), MAX_PAYLOAD_BYTES, "message")


def metadata_bytes(
    context: Mapping[str, object], policy_id: str, decision: Decision | None = None
) -> bytes:
    """The routing context, with what the router itself says of it. Raises InvalidExtensionMessage
    above 64 KiB.
    """
    body = {**context, "policy_id": policy_id}
    if decision is not None:
        # it is the same for all requests that get it
        body["decision"] = orjson.Fragment(decision_bytes(decision))
    return _check_size(orjson.dumps(body, default=dict), MAX_METADATA_BYTES, "metadata")


def opening_bytes(trace_id: str, tenant_id: str) -> bytes:
    """How every request of one pipeline begins."""
    return b'{"trace_id":%b,"tenant_id":%b,' % (orjson.dumps(trace_id), orjson.dumps(tenant_id))


def request_bytes(
    opening: bytes, message: bytes, metadata: bytes, config: Mapping[str, object]
) -> bytes:
    """One request of parts that are JSON already: they stay the same from one extension to the
    next.
    """
    written = orjson.dumps(config, default=dict) if config else b"{}"
    return b'%b"payload":%b,"metadata":%b,"config":%b}' % (opening, message, metadata, written)


def read_retry_after(headers: Mapping[str, str]) -> int | None:
    """Milliseconds; None where the header is absent, or no whole number of at most 12 digits above
    0.
    """
    text = headers.get(RETRY_AFTER, "")
    return int(text) or None if text.isascii() and text.isdigit() and len(text) <= 12 else None


# -- the router's side: hearing --------------------------------------------------------------------


def read_processor_answer(data: bytes) -> ProcessorAnswer:
    """A processor's answer. Raises InvalidExtensionMessage."""
    wire = _decode(_CHANGED, data, MAX_PAYLOAD_BYTES + 2 * MAX_METADATA_BYTES)
    if len(data) > MAX_METADATA_BYTES:  # below that no part can be too large
        parts = _PARTS.decode(data)
        _check_size(bytes(parts.payload), MAX_PAYLOAD_BYTES, "message")
        _check_size(bytes(parts.metadata), MAX_METADATA_BYTES, "metadata")
    told = wire.payload.message_type
    # the type is billed, and a request may not say so either
    if told and (len(told) > MAX_TYPE or told in RESERVED_TYPES):
        raise InvalidExtensionMessage(f"message_type: text of 1..{MAX_TYPE} characters, {RESERVED}")
    return ProcessorAnswer(_build_message(wire.payload), wire.metadata or NOTHING)


def read_validator_answer(data: bytes) -> ValidatorAnswer:
    """A validator's answer. Raises InvalidExtensionMessage."""
    wire = _decode(_JUDGED, data, MAX_METADATA_BYTES)
    if wire.status not in (OK, REJECT, None) or (wire.status is None and wire.valid is None):
        raise InvalidExtensionMessage("a validator answers with a status of ok or reject")
    is_ok = wire.status != REJECT and wire.valid is not False
    return ValidatorAnswer(is_ok, wire.reason, wire.details)


# -- the author's side -----------------------------------------------------------------------------


def read_request(data: bytes) -> ExtensionRequest:
    """What the router asks. Raises InvalidExtensionMessage, which says what is wrong."""
    wire = _decode(_REQUEST, data, 2 * MAX_PAYLOAD_BYTES)
    return ExtensionRequest(
        trace_id=wire.trace_id,
        tenant_id=wire.tenant_id,
        message=_build_message(wire.payload),
        metadata=wire.metadata or NOTHING,
        config=wire.config or NOTHING,
    )


class ExtensionMessageWire(Struct, gc=False):
    payload: Raw
    message_type: str | None = None
    message_id: str | None = None
    payload_encoding: str | None = None
    payload_ref: str | None = None
    metadata: dict[str, Any] | None = None


class ProcessorAnswerWire(Struct, gc=False):
    payload: ExtensionMessageWire
    metadata: dict[str, Any] | None = None


class _Parts(Struct):
    payload: Raw
    metadata: Raw = Raw(b"{}")


class ValidatorAnswerWire(Struct, gc=False):
    status: str | None = None
    valid: bool | None = None
    reason: str | None = None
    details: Any = None


class _RequestWire(Struct):
    tenant_id: str
    payload: ExtensionMessageWire
    trace_id: str = ""
    metadata: dict[str, Any] | None = None
    config: dict[str, Any] | None = None


_CHANGED = msgspec.json.Decoder(ProcessorAnswerWire)
_PARTS = msgspec.json.Decoder(_Parts)
_JUDGED = msgspec.json.Decoder(ValidatorAnswerWire)
_REQUEST = msgspec.json.Decoder(_RequestWire)


def _decode(decoder: msgspec.json.Decoder[Any], data: bytes, most: int = MAX_PAYLOAD_BYTES) -> Any:
    if len(data) > MAX_DEPTH:  # a shorter one nests no deeper, and is no larger than anything
        _check_size(data, most, "whole")
        if data.count(b"{") + data.count(b"[") > MAX_DEPTH and is_deeper(data, MAX_DEPTH):
            raise InvalidExtensionMessage(f"nested deeper than {MAX_DEPTH}")
    try:
        # `check_text` in place: once an answer
        data.isascii() or data.decode()
        value = decoder.decode(data)
    except UNREADABLE_ERRORS as exc:
        raise InvalidExtensionMessage(
            f"not such a message: {describe_unreadable(data, exc)}"
        ) from exc
    if may_hold_long_number(data):
        _check_numbers(data, value)
    return value


def _check_numbers(data: bytes, value: Any) -> None:
    """The payload is its sender's; all other fields are read and written, as the router's own."""
    if has_endless_number(data):
        raise InvalidExtensionMessage(f"a number has more than {MAX_DIGITS} digits in a row")
    message = getattr(value, "payload", None)
    for place, read in (
        ("payload.metadata", getattr(message, "metadata", None)),
        *((name, getattr(value, name, None)) for name in ("metadata", "config", "details")),
    ):
        if has_long_integer(read):
            raise InvalidExtensionMessage(f"{place}: an integer has more than 64 bits")


def _build_message(wire: ExtensionMessageWire) -> ExtensionMessage:
    """With its payload turned back to bytes when `payload_encoding` says base64 (text if those are
    UTF-8).
    """
    written = RawJson(bytes(wire.payload))
    payload: RawJson | bytes | None = None if written.data == NULL.data else written
    if wire.payload_encoding is not None:
        try:
            payload = payload_of(bytes_of(written.read(), wire.payload_encoding))
        except (ValueError, TypeError, AttributeError) as exc:
            raise InvalidExtensionMessage("payload: is not what payload_encoding says") from exc
    return ExtensionMessage(
        payload=payload,
        message_type=wire.message_type,
        message_id=wire.message_id,
        payload_ref=wire.payload_ref,
        metadata=wire.metadata,
    )


def _check_size(data: bytes, most: int, part: str) -> bytes:
    if len(data) > most:
        raise InvalidExtensionMessage(f"{part}: {len(data)} bytes where {most} are allowed")
    return data
