"""What SDS-047 speaks of, field by field: its two entities, its three value objects, and the answer
of its two queries.

    OutboxEvent   committed with the service's own data, published afterwards
    InboxMessage  the inbox row by which a message is handled once
    EventSubject  {context}.event.{name}.v{n}

`policies` holds the rules about them, `migrations/` the tables. Modules may build on these
entities; none may add a field: the column `position` is the relay's alone.

Rule: docs/reference/requirements.md#sd-1.
"""

from __future__ import annotations

import re
from datetime import datetime
from uuid import UUID

from msgspec import Raw, Struct

from router.contracts.codec import write_value

# any JSON value; `Raw` is JSON text as it stands in its column, so that a relay need not parse it
Json = object

_SUBJECT = re.compile(r"([A-Za-z0-9_-]{1,64})\.event\.([A-Za-z0-9_-]{1,128})\.v([1-9][0-9]{0,8})")


class OutboxEvent(Struct, frozen=True, gc=False):
    """One row of outbox_events. `occurred_at` None: the database sets it
    (docs/reference/requirements.md#sd-2).
    """

    id: UUID
    aggregate_type: str
    aggregate_id: str
    event_type: str
    payload: Json
    event_version: int = 1
    occurred_at: datetime | None = None
    correlation_id: UUID | None = None
    causation_id: UUID | None = None
    published_at: datetime | None = None
    publish_attempts: int = 0
    publish_error: str | None = None


class InboxMessage(Struct, frozen=True):
    """One row of inbox_messages (docs/reference/requirements.md#sd-3)."""

    message_id: UUID
    subject: str
    received_at: datetime | None = None
    processed_at: datetime | None = None
    attempts: int = 0
    last_error: str | None = None


class EventSubject(Struct, frozen=True):
    """`{context}.event.{name}.v{n}`, made by `from_parts` or `read`, so it is always a literal
    subject (docs/reference/requirements.md#sd-4).
    """

    context: str
    name: str
    version: int

    @classmethod
    def from_parts(cls, context: str, event_type: str, event_version: int) -> EventSubject:
        """Raises ValueError if the three parts do not make a subject of this shape."""
        return cls.read(f"{context}.event.{event_type}.v{event_version}")

    @classmethod
    def read(cls, subject: str) -> EventSubject:
        """Raises ValueError if the subject has another shape."""
        match = _SUBJECT.fullmatch(subject)
        if match is None:
            raise ValueError(
                "should be {context}.event.{name}.v{n}, context and name of letters, "
                "digits, _ and -"
            )
        return cls(match[1], match[2], int(match[3]))

    @property
    def value(self) -> str:
        return f"{self.context}.event.{self.name}.v{self.version}"


class CorrelationContext(Struct, frozen=True):
    """The ids of the conversation and of the cause of a message; both may be absent
    (docs/reference/requirements.md#sd-5).
    """

    correlation_id: UUID | None = None
    causation_id: UUID | None = None


class NatsMsgId(Struct, frozen=True):
    """The id by which JetStream drops duplicates: the id of the outbox event
    (docs/reference/requirements.md#sd-6).
    """

    value: str

    @classmethod
    def from_event(cls, event: OutboxEvent) -> NatsMsgId:
        return cls(str(event.id))


class Backlog(Struct, frozen=True):
    """The answer of QRY-050 and QRY-051 (docs/reference/requirements.md#sd-commands)."""

    count: int
    oldest_at: datetime | None


def json_text(payload: Json) -> bytes:
    """Write a payload as JSON text. Raises TypeError if it is no JSON value, ValueError if it holds
    NaN or infinity.
    """
    return bytes(payload) if isinstance(payload, Raw) else write_value(payload)
