"""Reads back usage events that were stored before, by the publish ack of a duplicate:
`reports.MeteredEvents` over the usage stream.
"""

from __future__ import annotations

from math import inf

from router.budgets.model.reservation import RESERVATION_HEADER
from router.contracts.usage import read_usage_event
from router.core.bounded_cache import BoundedCache
from router.core.errors import BrokerRefused, BrokerUnavailable
from router.core.outcome import PublishAck
from router.delivery.wire.api import JetStream, StoredMessage, nanos
from router.work.model.invocation_record import ATTEMPT_HEADER
from router.work.model.result_memory import MeteredEvent

LIMIT = 10_000  # events kept, some 10 MB; each tenant has a share


class StoredUsage:
    """The events of a stream never change, so each is asked for once. A reconnect clears them: a
    killed server may have lost the last.
    """

    def __init__(self, jetstream: JetStream) -> None:
        self._jetstream = jetstream
        self._reconnects = 0
        self._kept: BoundedCache[tuple[str, int], MeteredEvent] = BoundedCache(LIMIT)

    async def find(self, publish_ack: PublishAck) -> MeteredEvent | None:
        """The event with this identity at this place; None: it has gone. Raises BrokerUnavailable."""
        reconnects = self._jetstream.connection.reconnect_count
        if reconnects != self._reconnects:
            self._reconnects, self._kept = reconnects, BoundedCache(LIMIT)
        key = publish_ack.id, publish_ack.sequence
        usage = self._kept.get(key, 0.0)
        if usage is None and (usage := await self._read(publish_ack)) is not None:
            self._kept.put(key, usage, inf, 0.0, owner=usage.event.tenant_id)
        return usage

    async def _read(self, publish_ack: PublishAck) -> MeteredEvent | None:
        try:
            stored = await self._jetstream.message(publish_ack.stream, publish_ack.sequence)
        except BrokerRefused as exc:
            raise BrokerUnavailable(f"stream {publish_ack.stream}: {exc}") from exc
        return (
            None
            if stored is None or stored.headers.get("Nats-Msg-Id") != publish_ack.id
            else _read_event(stored)
        )


def _read_event(stored: StoredMessage) -> MeteredEvent | None:
    event = read_usage_event(stored.data)
    if event is None:
        return None
    return MeteredEvent(
        event,
        nanos(stored.time),
        stored.headers.get(RESERVATION_HEADER),
        ATTEMPT_HEADER in stored.headers,
    )
