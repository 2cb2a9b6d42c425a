"""Reads the events of violations, oldest first. A stream that is missing has none, and bytes that are no event are passed over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime

from msgspec import Struct

from router.contracts.malformed import Malformed
from router.contracts.violation import ViolationEvent, read_violation
from router.core.errors import BrokerRefused
from router.core.ids import subject_matcher
from router.delivery.api import STREAM_NOT_FOUND, JetStream, StoredMessage
from router.delivery.stream_reader import open_reader

READ_BATCH = 1_000


class StoredViolation(Struct, frozen=True):
    """An event, its sequence in the stream of events, and when the server stored it (its own text)."""

    sequence: int
    stored_at: str
    event: ViolationEvent


class ViolationFilter(Struct, frozen=True, kw_only=True):
    """Which events; None: any. `subject` may have wildcards, `rule` is `malformed` or `trace_id.malformed`."""

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


async def read_since(
    jetstream: JetStream, stream: str, since: datetime | None = None, wanted: ViolationFilter = ANY
) -> AsyncIterator[StoredViolation]:
    """The events that were stored since then. Raises BrokerUnavailable."""
    try:
        async with open_reader(jetstream, stream, since=since) as reader:
            while found := await reader.read(READ_BATCH):
                for message in found:
                    violation = parse(message)
                    if violation is not None and wanted.is_match(violation.event):
                        yield violation
    except BrokerRefused as exc:
        if exc.err_code != STREAM_NOT_FOUND:
            raise


async def read_one(jetstream: JetStream, stream: str, sequence: int) -> StoredViolation | None:
    """The event at a sequence; None: it is gone, never was, or is no event."""
    message = await jetstream.message(stream, sequence)
    return None if message is None else parse(message)


def parse(message: StoredMessage) -> StoredViolation | None:
    try:
        return StoredViolation(message.sequence, message.time, read_violation(message.data))
    except Malformed:
        return None
