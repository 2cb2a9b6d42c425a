"""An envelope is made and published: the version, the clock and the key around what happened; then
its publish ack (docs/reference/requirements.md#sr-22).

    envelope -> subject by its type -> Nats-Msg-Id = idempotency key -> PubAck -> PublishAck

A key that the server has seen within its duplicate window is stored once: the publish ack says
`is_duplicate`, and where the first one is stored. Any number of publications share one window of
publish acks.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256

import orjson

from router.bus.metrics import DUPLICATE, STORED, BusMetrics
from router.bus.settings import BusSettings
from router.bus.subjects import command_subject, event_subject
from router.contracts.canonical import canonical_json
from router.contracts.codec import write_object
from router.contracts.envelope import (
    ENVELOPE_VERSION,
    SUPPORTED,
    MessageEnvelope,
    envelope_bytes,
    read_envelope,
)
from router.contracts.malformed import (
    SCHEMA_VALIDATION_FAILED,
    STAGE_SCHEMA,
    Malformed,
    invalid_field,
)
from router.core.errors import BrokerRefused, BrokerUnavailable, Poison, RouterError, StorageRefused
from router.core.message import Effect
from router.core.outcome import PublishAck
from router.delivery.publish.acked_publisher import AckedPublisher, NotPublished
from router.delivery.wire.connection import Connection, head_of
from router.delivery.wire.publish_faults import NO_STREAM

MSG_ID = "Nats-Msg-Id"


class Publisher:
    """Events and commands of one prefix, over one connection's publish window
    (`delivery.publish.storing`).
    """

    def __init__(
        self,
        settings: BusSettings,
        connection: Connection,
        acked_publisher: AckedPublisher,
        metrics: BusMetrics | None = None,
    ) -> None:
        """`metrics` None: nothing is counted."""
        self._published = (metrics or BusMetrics()).published
        self._prefix, self._max_payload_bytes = settings.stream_prefix, settings.max_payload_bytes
        self._connection = connection
        self._acked_publisher = acked_publisher

    async def event(self, envelope: MessageEnvelope) -> PublishAck:
        """Store an event on the subject of its type. Raises as `command` does, but UnknownSubject."""
        return await self._publish(event_subject(self._prefix, envelope.message_type), envelope)

    async def command(self, command: str, envelope: MessageEnvelope) -> PublishAck:
        """Store a command, `iteration.start` and so on.

        Raises UnknownSubject, Poison (too large, of a version that is not supported),
        BrokerRefused, and BrokerUnavailable: then it may be stored or not, and publishing the same
        envelope again is safe within the duplicate window and for every consumer.
        """
        return await self._publish(command_subject(self._prefix, command), envelope)

    async def _publish(self, subject: str, envelope: MessageEnvelope) -> PublishAck:
        try:
            publish_ack = await self._publish_and_wait(subject, envelope)
        except RouterError as exc:
            self._published[subject, exc.code] += 1
            raise
        self._published[subject, DUPLICATE if publish_ack.is_duplicate else STORED] += 1
        return publish_ack

    async def _publish_and_wait(self, subject: str, envelope: MessageEnvelope) -> PublishAck:
        effect = effect_of(subject, envelope)
        self._check_size(effect)
        result = await self._acked_publisher.publish_and_wait((effect,))
        if not isinstance(result, NotPublished):
            return result[0]
        if result.err_code == NO_STREAM:
            raise StorageRefused(
                f"{subject} cannot be stored: {result.cause}; `router bus topology` looks "
                "at the streams"
            )
        if result.err_code:
            raise BrokerRefused(result.err_code, f"{subject}: {result.cause}")
        raise BrokerUnavailable(
            f"{subject} cannot be stored: {result.cause}; `router bus topology` looks at "
            "the streams"
        )

    def _check_size(self, effect: Effect) -> None:
        """Consumers refuse a larger payload, and the server closes the connection for a larger
        frame.
        """
        size, most = len(effect.data), self._max_payload_bytes
        if size > most or size + len(head_of({MSG_ID: effect.id})) > self._connection.max_payload:
            raise Poison(
                f"an envelope of {size} bytes is too large: "
                f"{min(most, self._connection.max_payload)} is the limit"
            )


def effect_of(subject: str, envelope: MessageEnvelope) -> Effect:
    """The envelope as a message to be stored. Raises Poison: its version is not one that may be
    emitted (docs/reference/requirements.md#sr-26).
    """
    if envelope.schema_version not in SUPPORTED:
        raise Poison(f"schema_version must be one of {', '.join(sorted(SUPPORTED))}")
    return Effect(subject, envelope_bytes(envelope), envelope.idempotency_key)


# -- A new envelope: the version, the clock and the idempotency key put around what happened
# (docs/reference/requirements.md#sr-envelope).
#
#     make_envelope("LoopCreated", {"loop_id": "loop_1"}, message_id="evt_1", actor_id="user_1",
#     actor_kind="HUMAN")
#
# What is made is read before it is given away, so nothing leaves here that a consumer would refuse.


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
