"""Publish on the bus: an envelope in, its publish ack out (docs/reference/requirements.md#sr-22).

    envelope -> subject by its type -> Nats-Msg-Id = idempotency key -> PubAck -> PublishAck

A key that the server has seen within its duplicate window is stored once: the publish ack says
`is_duplicate`, and where the first one is stored. Any number of publications share one window of
publish acks.
"""

from __future__ import annotations

from router.bus.metrics import DUPLICATE, STORED, BusMetrics
from router.bus.settings import BusSettings
from router.bus.subjects import command_subject, event_subject
from router.contracts.envelope import SUPPORTED, MessageEnvelope, envelope_bytes
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
