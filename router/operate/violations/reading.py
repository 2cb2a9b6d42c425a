"""Reads the events of violations, oldest first. A stream that is missing has none, and bytes that
are no event are passed over.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime

from msgspec import Struct

from router.contracts.malformed import Malformed
from router.core.ids import subject_matcher
from router.delivery.consume.stream_reader import read_since
from router.delivery.wire.api import JetStream, StoredMessage
from router.operate.violations.violation import ViolationEvent, read_violation


class StoredViolation(Struct, frozen=True):
    """An event, its sequence in the stream of events, and when the server stored it (its own text)."""

    sequence: int
    stored_at: str
    event: ViolationEvent


class ViolationFilter(Struct, frozen=True, kw_only=True):
    """Which events; None: any. `subject` may have wildcards, `rule` is `malformed` or
    `trace_id.malformed`.
    """

    tenant: str | None = None
    subject: str | None = None
    rule: str | None = None

    def is_match(self, event: ViolationEvent) -> bool:
        return (
            self.tenant in (None, event.tenant_id)
            and (self.subject is None or subject_matcher((self.subject,))(event.subject))
            and self.rule in (None, event.rule, f"{event.header}.{event.rule}")
        )


ANY = ViolationFilter()


async def read_violations(
    jetstream: JetStream,
    stream: str,
    since: datetime | None = None,
    wanted: ViolationFilter = ANY,
    *,
    follow: bool = False,
) -> AsyncIterator[StoredViolation]:
    """The events that were stored since then; with `follow` also those to come, without an end.
    Raises BrokerUnavailable.
    """
    async for message in read_since(jetstream, stream, since, follow=follow):
        violation = _parse(message)
        if violation is not None and wanted.is_match(violation.event):
            yield violation


async def read_one(jetstream: JetStream, stream: str, sequence: int) -> StoredViolation | None:
    """The event at a sequence; None: it is gone, never was, or is no event."""
    message = await jetstream.message(stream, sequence)
    return None if message is None else _parse(message)


def _parse(message: StoredMessage) -> StoredViolation | None:
    try:
        return StoredViolation(message.sequence, message.time, read_violation(message.data))
    except Malformed:
        return None
