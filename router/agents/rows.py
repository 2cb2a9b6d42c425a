"""The rows of the store, as values."""

from __future__ import annotations

from msgspec import Struct


class KnownEvent(Struct, frozen=True, gc=False):
    """The store's row of one key."""

    place: int
    status: str
    attempts: int


class NewEvent(Struct, frozen=True, gc=False):
    """A row to insert: one event, as it was received."""

    place: int
    key: str
    stream: str
    stream_seq: int
    subject: str
    content: bytes


class ResumableEvent(Struct, frozen=True, gc=False):
    """A row that was received and never applied: the process died, or the adapter failed."""

    place: int
    attempts: int
    content: bytes


class OutgoingRow(Struct, frozen=True, gc=False):
    """One outgoing message, as bytes: `id` is its Nats-Msg-Id."""

    place: int
    number: int
    id: str
    subject: str
    data: bytes
    traceparent: str | None


# stream, stream sequence, place, number: where an outgoing message is stored
Mark = tuple[str, int, int, int]
Memory = tuple[str, bytes | None]  # name, value as JSON; None: deleted
