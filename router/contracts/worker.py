"""What workers send, as one object: bare JSON, a worker's envelope, or protobuf
(docs/reference/contracts.md#encodings).

    {…}                                   bare
    {version, kind, data{…}}              enveloped: `data`, and beside it what stands at the top,
                                          which wins
    protobuf                              turned into the object that the same message would be in
                                          JSON

This is the door that messages share; their fields stand in their own files. It has two leaves:

    decode_plain   JSON with usual fields alone, of their usual types, and headers that keep the
                   contract. msgspec
                   checks the types while it parses; `message_spec` makes what checks the values
    read           all that is not ordinary, and what is wrong with it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any, Generic, TypeVar

from google.protobuf.message import DecodeError
from msgspec import Struct

from router.contracts.codec import (
    LARGE_BODY_BYTES,
    MAX_DEPTH,
    MAX_PAYLOAD_BYTES,
    UNREADABLE_ERRORS,
    oversized_payload,
    read_object,
)
from router.contracts.decision import NOTHING
from router.contracts.header_rules import Violation, violations
from router.contracts.headers import SUPPORTED_VERSIONS, first_stored_ms, is_supported_version
from router.contracts.malformed import (
    HEADER_CONTRACT_VIOLATION,
    STAGE_HEADERS,
    STAGE_VERSION,
    VERSION_UNSUPPORTED,
    Malformed,
    invalid_field,
)
from router.contracts.raw_json import read_around_payload
from router.core.message import Message
from router.core.outcome import Fault

Object = Mapping[str, Any]
T = TypeVar("T")
B = TypeVar("B", bound="PlainBody")

DAY_MS = 86_400_000
MAX_COST = 1e9
# a result waits 7 days in its stream, and 30 more as a dead letter
MAX_TIMESTAMP_AGE_MS = 40 * DAY_MS
MAX_TIMESTAMP_AHEAD_MS = DAY_MS

# so many nest no deeper; a setting below this leaves all to the careful reader, which counts depth
_OPENINGS = 8
_ENVELOPED = frozenset({"data"})
_SHARED = ("tenant_id", "trace_id", "msg_id")  # what an envelope may say beside its data


class WorkerMessageLimits(Struct, frozen=True, kw_only=True):
    """What a worker's message may be. `strict`: any violation of the header contract refuses it.

    The last three bound a result: what it costs, and how far its `timestamp` may lie from the time
    its stream stored it.
    """

    max_payload_bytes: int = MAX_PAYLOAD_BYTES
    max_depth: int = MAX_DEPTH
    strict: bool = False
    max_cost: float = MAX_COST
    max_timestamp_age_ms: int = MAX_TIMESTAMP_AGE_MS
    max_timestamp_ahead_ms: int = MAX_TIMESTAMP_AHEAD_MS


class MessageType(Struct, frozen=True):
    """One message of workers. `envelope`: its name as an envelope's `kind`; `ids`: one of them
    makes protobuf believable.
    """

    envelope: str
    ids: tuple[str, ...]
    # raises DecodeError; proto3 does not tell empty from absent
    decode: Callable[[bytes], dict[str, Any]]
    kept: Set[str] = frozenset()  # fields that stay as they were written (`raw_json`)


class ReadResult(Struct, Generic[T], frozen=True, gc=False):
    """The message, or why it is invalid; and the rules of the header contract that it broke."""

    found: T | Fault
    violations: tuple[Violation, ...] = ()


DEFAULT_LIMITS = WorkerMessageLimits()


class Received(Struct, frozen=True, gc=False):
    """A message that is an object by now, and what fills or bounds its fields."""

    body: Object
    headers: Mapping[str, str]
    stored_ms: int = 0  # milliseconds since the epoch; 0: it came past all streams
    first_ms: int = 0  # the same of its first storing
    limits: WorkerMessageLimits = DEFAULT_LIMITS


def read(
    message: Message,
    kind: MessageType,
    take: Callable[[Received], T],
    limits: WorkerMessageLimits = DEFAULT_LIMITS,
) -> ReadResult[T]:
    """One stored message. A Fault's `code` is a dead letter's validation code, its `field` the
    place in the payload.
    """
    headers = message.headers
    body: Object = NOTHING
    try:
        body = read_body(message.data, kind, limits.max_payload_bytes, limits.max_depth)
        broken = violations(headers, body.get("tenant_id"))
        version = headers.get("version")
        if version not in SUPPORTED_VERSIONS:
            _check_version(version, body)
        if broken and limits.strict:
            raise _contract_broken(broken)
        sent = Received(body, headers, message.stored_ms, first_stored_ms(message), limits)
        return ReadResult(take(sent), broken)
    except Malformed as refused:
        return ReadResult(refused.as_fault(), violations(headers, body.get("tenant_id")))


def read_body(
    data: bytes, kind: MessageType, max_bytes: int = MAX_PAYLOAD_BYTES, max_depth: int = MAX_DEPTH
) -> dict[str, Any]:
    """The message as an object. Raises Malformed when it is neither a JSON object nor this kind's
    protobuf, or beyond the limits.
    """
    if data[:1] == b"{":
        body = _read_json(data, kind, max_bytes, max_depth)
        return unwrap(body, kind.envelope) if "kind" in body else body
    if len(data) > max_bytes:
        raise oversized_payload(len(data), max_bytes)
    decoded = _decode(data, kind)
    if decoded is not None and any(decoded[name] for name in kind.ids):
        return decoded
    try:
        # Not before: 0x0A is white space to JSON and the tag of field 1 to protobuf.
        return unwrap(_read_json(data, kind, max_bytes, max_depth), kind.envelope)
    except Malformed:
        if decoded is None:
            raise
        return decoded


def _read_json(data: bytes, kind: MessageType, max_bytes: int, max_depth: int) -> dict[str, Any]:
    if not kind.kept:
        return read_object(data, max_bytes, max_depth)
    return read_around_payload(data, max_bytes, max_depth, kept=kind.kept, opened=_ENVELOPED)


def unwrap(body: dict[str, Any], kind: str) -> dict[str, Any]:
    """A worker's envelope opened; anything else as it is."""
    if body.get("kind") != kind:
        return body
    data = body.get("data")
    if type(data) is not dict:
        raise invalid_field("data", "data", "an object")
    shared = {name: body[name] for name in _SHARED if body.get(name) not in (None, "")}
    version = _version_of(body)
    return {**data, **shared, "version": _version_of(data) if version is None else version}


def _decode(data: bytes, kind: MessageType) -> dict[str, Any] | None:
    try:
        decoded = kind.decode(data)
    except DecodeError:
        return None
    # unknown fields only: bytes of something else
    return decoded if any(decoded.values()) else None


def _check_version(header: str | None, body: Object) -> None:
    """Header, payload, then the subject's own `.v1`; `schema_version` reads as `version`."""
    version = header or _version_of(body)
    if version is not None and not is_supported_version(version):
        raise Malformed(
            VERSION_UNSUPPORTED,
            'Unsupported version: this subject speaks "1"',
            STAGE_VERSION,
            "version",
        )


def _version_of(body: Object) -> object:
    version = body.get("version")
    return body.get("schema_version") if version is None else version


def _contract_broken(broken: tuple[Violation, ...]) -> Malformed:
    names = ", ".join(f"{header} ({rule})" for header, rule in broken)
    return Malformed(
        HEADER_CONTRACT_VIOLATION, f"Header contract broken: {names}", STAGE_HEADERS, broken[0][0]
    )


class PlainBody(Struct, forbid_unknown_fields=True, gc=False):
    """The fields that every message of a worker may have, as they stand on the wire. A message's
    own are added by its spec (`contracts.message_spec`).
    """

    tenant_id: str | None = None
    trace_id: str | None = None
    msg_id: str | None = None
    version: str | None = None


def decode_plain(
    message: Message, limits: WorkerMessageLimits, decode: Callable[[bytes], B]
) -> B | None:
    """The body by a message's own `decode`; None where the careful reader must read it."""
    data, headers = message.data, message.headers
    size = len(data)
    if data[:1] != b"{" or size > limits.max_payload_bytes or size >= LARGE_BODY_BYTES:
        return None
    if limits.max_depth < _OPENINGS or data.count(b"{") + data.count(b"[") > _OPENINGS:
        return None
    try:
        # `check_text` in place: once a message
        data.isascii() or data.decode()
        body = decode(data)
    except UNREADABLE_ERRORS:
        return None
    if violations(headers, body.tenant_id):
        return None
    version = headers.get("version") or body.version
    return body if version is None or version in SUPPORTED_VERSIONS else None
