"""A new envelope: the version, the clock and the idempotency key put around what happened
(docs/reference/requirements.md#sr-envelope).

    make_envelope("LoopCreated", {"loop_id": "loop_1"}, message_id="evt_1", actor_id="user_1",
    actor_kind="HUMAN")

What is made is read before it is given away, so nothing leaves here that a consumer would refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256

import orjson

from router.contracts.canonical import canonical_json
from router.contracts.codec import write_object
from router.contracts.envelope import ENVELOPE_VERSION, MessageEnvelope, read_envelope
from router.contracts.malformed import (
    SCHEMA_VALIDATION_FAILED,
    STAGE_SCHEMA,
    Malformed,
    invalid_field,
)


def make_envelope(
    message_type: str,
    payload: Mapping[str, object],
    *,
    message_id: str,
    actor_id: str,
    actor_kind: str,
    correlation_id: str | None = None,
    causation_id: str | None = None,
    timestamp: str | None = None,
    idempotency_key: str | None = None,
) -> MessageEnvelope:
    """An envelope of the current version. `timestamp` is now and `idempotency_key` `key_of` the
    rest, unless they are given.

    `message_id` is the event's own: the same event sent again is then the same message. Raises
    Malformed with the field's name.
    """
    # also says whether the payload is JSON at all
    key = key_of(message_type, message_id, actor_id, payload)
    body = {
        "schema_version": ENVELOPE_VERSION,
        "message_type": message_type,
        "message_id": message_id,
        "correlation_id": correlation_id,
        "causation_id": causation_id,
        "timestamp": timestamp or _format_now(),
        "actor_id": actor_id,
        "actor_kind": actor_kind,
        "idempotency_key": idempotency_key or key,
    }
    try:
        data = orjson.dumps({**body, "payload": orjson.Fragment(write_object(payload))})
    except TypeError as exc:  # text with a lone surrogate
        raise Malformed(
            SCHEMA_VALIDATION_FAILED, f"the envelope cannot be written as JSON: {exc}", STAGE_SCHEMA
        ) from exc
    return read_envelope(data)


def key_of(message_type: str, message_id: str, actor_id: str, payload: Mapping[str, object]) -> str:
    """`sha256:` and hex over the canonical JSON (RFC 8785) of [message_type, message_id, actor_id,
    payload].

    Canonical, because a database may give a payload back with other spaces, another order of keys,
    other texts of its numbers. Raises Malformed for what is no JSON.
    """
    try:
        return (
            "sha256:"
            + sha256(canonical_json([message_type, message_id, actor_id, payload])).hexdigest()
        )
    except ValueError as exc:
        raise invalid_field("payload", "payload", f"a JSON object: {exc}") from exc


def _format_now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
