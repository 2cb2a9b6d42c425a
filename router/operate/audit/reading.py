"""Reads the audit events, oldest first. A stream that is missing has none, and bytes that are no
event are passed over.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime

from msgspec import Struct

from router.contracts.malformed import Malformed
from router.delivery.consume.stream_reader import read_since
from router.delivery.wire.api import JetStream, StoredMessage
from router.operate.audit.audit_event import AuditEvent, read_audit_event


class StoredAuditEvent(Struct, frozen=True):
    """An event, its sequence in the stream, and when the server stored it (its own text)."""

    sequence: int
    stored_at: str
    event: AuditEvent


class AuditFilter(Struct, frozen=True, kw_only=True):
    """Which events; None: any. `who` and `what` are parts of texts: of `by` and `nats_user`, of
    `command` and `target`.
    """

    who: str | None = None
    what: str | None = None
    tenant: str | None = None

    def is_match(self, event: AuditEvent) -> bool:
        return (
            (self.who is None or self.who in event.by or self.who in (event.nats_user or ""))
            and (self.what is None or self.what in f"{event.command} {event.target}")
            and self.tenant in (None, event.tenant_id)
        )


EVERY = AuditFilter()


async def read_audit(
    jetstream: JetStream,
    stream: str,
    since: datetime | None = None,
    wanted: AuditFilter = EVERY,
    *,
    follow: bool = False,
) -> AsyncIterator[StoredAuditEvent]:
    """The events that were stored since then; with `follow` also those to come, without an end.
    Raises BrokerUnavailable.
    """
    async for message in read_since(jetstream, stream, since, follow=follow):
        one = _parse(message)
        if one is not None and wanted.is_match(one.event):
            yield one


def _parse(message: StoredMessage) -> StoredAuditEvent | None:
    try:
        return StoredAuditEvent(message.sequence, message.time, read_audit_event(message.data))
    except Malformed:
        return None
