"""The message envelope of SOLVER-Ralph: ten fields around a domain event on its way over NATS
(docs/reference/requirements.md#sr-envelope). And its JSON Schema, made of the type.

    {schema_version, message_type, message_id, correlation_id, causation_id, timestamp, actor_id,
    actor_kind, payload, idempotency_key}

It is a transport wrapper and nothing else: what is persisted is the domain's own, and knows nothing
of it. The type is the contract: this reader, the JSON Schema (`envelope_schema`) and the bytes are
made of it. New ones come from `envelope_making`.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
import orjson
from msgspec import Meta, Struct

from router.contracts.codec import (
    MAX_DEPTH,
    MAX_PAYLOAD_BYTES,
    read_foreign_object,
    read_object,
    write_object,
)
from router.contracts.exact_json import WrittenObject, may_lose_digits
from router.contracts.malformed import (
    SCHEMA_VALIDATION_FAILED,
    STAGE_SCHEMA,
    STAGE_VERSION,
    VERSION_UNSUPPORTED,
    Malformed,
    invalid_field,
    missing_field,
)
from router.core import ids

ENVELOPE_VERSION = "1.0"
# A version is added before any producer emits it, and removed when no consumer can meet it (`router
# bus check-drain`).
SUPPORTED = frozenset({ENVELOPE_VERSION})

# `$(?!\n)`: the end and nothing else, for Python as for ECMAScript.
Version = Annotated[
    str,
    Meta(
        description="a supported version of this schema",
        extra_json_schema={"enum": sorted(SUPPORTED)},
    ),
]
Opaque = Annotated[
    str,
    Meta(
        pattern=r"^[!-~]{1,128}$(?!\n)",
        description="1..128 printable ASCII characters without spaces",
    ),
]
Key = Annotated[
    str,
    Meta(
        pattern=r"^[!-~]{1,256}$(?!\n)",
        description="1..256 printable ASCII characters without spaces",
    ),
]
Actor = Annotated[str, Meta(min_length=1, max_length=256, description="text of 1..256 characters")]
Link = Annotated[
    Annotated[str, Meta(max_length=256)] | None,
    Meta(description="text of at most 256 characters, or null"),
]
Kind = Annotated[Literal["HUMAN", "AGENT", "SYSTEM"], Meta(description="HUMAN, AGENT or SYSTEM")]
_LEAP = "(?:0[48]|[2468][048]|[13579][26])"
_YEAR = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_DATE = (  # the whole calendar, so that the schema says what the reader does
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    f"|(?:[0-9][0-9]{_LEAP}|{_LEAP}00)-02-29)"
)
_TIME = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
UTC_PATTERN = rf"{_DATE}T{_TIME}(\.[0-9]{{1,9}})?(Z|\+00:00)"
Moment = Annotated[
    str,
    Meta(
        pattern=rf"^{UTC_PATTERN}$(?!\n)",
        description="an ISO 8601 date and time in UTC, like 2024-01-15T14:30:00Z",
        extra_json_schema={"format": "date-time"},
    ),
]
Payload = Annotated[Mapping[str, object], Meta(description="a JSON object")]


class MessageEnvelope(Struct, frozen=True, kw_only=True):
    """One envelope, its fields in the order in which they are sent."""

    schema_version: Version
    message_type: Opaque  # the domain's event_type
    message_id: Opaque  # the domain's event_id
    correlation_id: Link = None
    causation_id: Link = None
    timestamp: Moment  # kept as text: what came with nanoseconds leaves with them
    actor_id: Actor
    actor_kind: Kind
    payload: Payload
    idempotency_key: Key

    @property
    def payload_json(self) -> bytes:
        """The payload as it came, or as it will be sent: with every digit of a decimal that a float
        does not hold.
        """
        return write_object(self.payload)

    @property
    def created_at(self) -> datetime:
        """The timestamp, cut to microseconds."""
        return datetime.fromisoformat(self.timestamp)


_FIELDS = {field.name: field for field in msgspec.structs.fields(MessageEnvelope)}


def envelope_bytes(envelope: MessageEnvelope) -> bytes:
    """The envelope as it is sent: all ten fields, null where a link is absent. Raises Malformed:
    its payload is no JSON.
    """
    fields = {name: getattr(envelope, name) for name in _FIELDS}
    try:
        return orjson.dumps({**fields, "payload": orjson.Fragment(write_object(envelope.payload))})
    except (TypeError, ValueError) as exc:
        raise Malformed(
            SCHEMA_VALIDATION_FAILED, f"the envelope cannot be written as JSON: {exc}", STAGE_SCHEMA
        ) from exc


def read_envelope(
    data: bytes,
    *,
    versions: Collection[str] = SUPPORTED,
    max_bytes: int = MAX_PAYLOAD_BYTES,
    max_depth: int = MAX_DEPTH,
) -> MessageEnvelope:
    """The envelope in these bytes; unknown fields are ignored
    (docs/reference/requirements.md#sr-27). Raises Malformed with the field's name.

    The version is looked at first: of one that is not in `versions` nothing else is known, so it is
    VERSION_UNSUPPORTED whatever the other fields are.
    """
    body = read_foreign_object(data, max_bytes, max_depth)
    version = body.get("schema_version")
    if version is None or version == "":
        raise missing_field("schema_version", "schema_version")
    if type(version) is not str:
        raise invalid_field("schema_version", "schema_version", "text")
    if version not in versions:
        supported = ", ".join(sorted(versions))
        raise Malformed(
            VERSION_UNSUPPORTED,
            f"Unsupported schema_version: supported is {supported}",
            STAGE_VERSION,
            "schema_version",
        )
    envelope = _convert(body)
    if (written := read_written_payload(data)) is not None:
        msgspec.structs.force_setattr(envelope, "payload", written)
    return envelope


def read_written_payload(data: bytes) -> WrittenObject | None:
    """The payload with its text; None: floats hold each number in these bytes, so it says all. They
    were read before.
    """
    return WrittenObject(bytes(_decode_payload(data).payload)) if may_lose_digits(data) else None


def extract_envelope_ids(data: bytes) -> dict[str, str]:
    """The ids in an unreadable envelope, for its dead letter: message_id, and the correlation as
    trace_id. Never raises.
    """
    try:
        body = read_object(data)
    except Malformed:
        return {}
    named = {"message_id": body.get("message_id"), "trace_id": body.get("correlation_id")}
    return {
        name: value
        for name, value in named.items()
        if isinstance(value, str) and ids.is_opaque(value)
    }


class _PayloadPart(Struct):
    payload: msgspec.Raw


_decode_payload = msgspec.json.Decoder(_PayloadPart).decode


def _convert(body: Mapping[str, object]) -> MessageEnvelope:
    try:
        return msgspec.convert(body, MessageEnvelope)
    except msgspec.ValidationError:
        raise _find_wrong_field(body) from None


def _find_wrong_field(body: Mapping[str, object]) -> Malformed:
    """Each field is read by itself, for the error of the whole names it in words only."""
    for name, field in _FIELDS.items():
        value = body.get(name)
        if field.required and (value is None or value == ""):
            return missing_field(name, name)
        try:
            msgspec.convert(value, field.type)
        except msgspec.ValidationError:
            return invalid_field(name, name, _legal(name))
    return Malformed(SCHEMA_VALIDATION_FAILED, "Payload is no envelope", STAGE_SCHEMA)


def _legal(name: str) -> str:
    """What is legal there, in the words of the type."""
    return next(
        meta.description or "" for meta in _FIELDS[name].type.__metadata__ if isinstance(meta, Meta)
    )


# -- The envelope's JSON Schema (docs/reference/requirements.md#sr-36), made of the type; the file
# beside it is what other languages read.
#
#     python -m router.contracts.envelope >
#     router/contracts/schemas/messaging/message-envelope.schema.json
#
# A test keeps the file equal to the type.


SCHEMA_ID = "urn:solver-ralph:messaging:message-envelope:1.0"
FILE = "schemas/messaging/message-envelope.schema.json"


def envelope_schema() -> dict[str, Any]:
    """The schema as the type says it: JSON Schema 2020-12."""
    made = msgspec.json.schema(
        MessageEnvelope, schema_hook=lambda _: {"description": "any JSON value"}
    )["$defs"][MessageEnvelope.__name__]
    about = "A domain event, a command or a query on its way over NATS. Unknown fields are ignored."
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        **made,
        "description": about,
    }


def envelope_schema_file() -> str:
    return importlib.resources.files("router.contracts").joinpath(FILE).read_text("utf-8")


def render_schema() -> str:
    """The schema as the file holds it."""
    return orjson.dumps(envelope_schema(), option=orjson.OPT_INDENT_2).decode() + "\n"


if __name__ == "__main__":
    print(render_schema(), end="")
