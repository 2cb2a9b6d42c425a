"""Stores audit events in their stream, each with a publish ack.

A stream that is missing is made: an operator who writes may be the first on a server. A stored
event is never changed: the roles of deploy/nats may neither delete nor purge there.
"""

from __future__ import annotations

from secrets import token_hex

from msgspec import Struct
from msgspec.structs import asdict

from router.core.clock import wall
from router.core.errors import BrokerUnavailable
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import StreamSpec, Topology, create
from router.operate.audit.audit_event import AuditEvent, OperatorWrite, audit_bytes, audit_subject


class AuditWriter(Struct, frozen=True):
    """Who writes: `by`, `via`, `nats_user` and `node_id` of the events."""

    by: str
    via: str
    node_id: str
    nats_user: str | None = None


class AuditLog:
    """`stream` is declared with the topology."""

    def __init__(self, jetstream: JetStream, stream: StreamSpec, writer: AuditWriter) -> None:
        self._jetstream = jetstream
        self._stream = stream
        self._writer = writer

    async def store(self, write: OperatorWrite) -> AuditEvent:
        """Store the event of a write. Raises BrokerUnavailable, BrokerRefused."""
        event = self._make_event(write)
        subject, data, headers = (
            audit_subject(event.via),
            audit_bytes(event),
            {"Nats-Msg-Id": event.id},
        )
        try:
            await self._jetstream.publish(subject, data, headers)
        except BrokerUnavailable:
            if await self._jetstream.stream(self._stream.name) is not None:
                raise
            await create(self._jetstream, Topology((self._stream,)))
            await self._jetstream.publish(subject, data, headers)
        return event

    def _make_event(self, write: OperatorWrite) -> AuditEvent:
        writer = self._writer
        return AuditEvent(
            id=token_hex(12),
            timestamp=int(wall() * 1000),
            by=writer.by,
            via=writer.via,
            nats_user=writer.nats_user,
            router_node_id=writer.node_id,
            **asdict(write),
        )
