"""Reads the events of one stream, oldest first: what operators wrote, or who broke the header
contract.

A stream that is missing has none, and bytes that are no event are passed over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from router.contracts.malformed import Malformed
from router.delivery.consume.stream_reader import read_since
from router.delivery.wire.api import JetStream, StoredMessage

E = TypeVar("E")
E_contra = TypeVar("E_contra", contravariant=True)


class EventChoice(Protocol[E_contra]):
    """Which events are wanted."""

    def is_match(self, event: E_contra) -> bool: ...


class StoredEvent(Struct, Generic[E], frozen=True):
    """An event, its sequence in the stream, and when the server stored it (its own text)."""

    sequence: int
    stored_at: str
    event: E


class EventReader(ABC, Generic[E]):
    """One stream of one kind of event. Every method may raise BrokerUnavailable."""

    def __init__(self, jetstream: JetStream, stream: str) -> None:
        self._jetstream = jetstream
        self._stream = stream

    @abstractmethod
    def parse(self, data: bytes) -> E:
        """The event in these bytes. Raises Malformed."""

    async def read(
        self,
        since: datetime | None = None,
        wanted: EventChoice[E] | None = None,
        *,
        follow: bool = False,
    ) -> AsyncIterator[StoredEvent[E]]:
        """The events that were stored since then; with `follow` also those to come, without an
        end. `wanted` None: any.
        """
        async for message in read_since(self._jetstream, self._stream, since, follow=follow):
            stored = self._parse(message)
            if stored is not None and (wanted is None or wanted.is_match(stored.event)):
                yield stored

    async def find(self, sequence: int) -> StoredEvent[E] | None:
        """The event at a sequence; None: it is gone, never was, or is no event."""
        message = await self._jetstream.message(self._stream, sequence)
        return None if message is None else self._parse(message)

    def _parse(self, message: StoredMessage) -> StoredEvent[E] | None:
        try:
            return StoredEvent(message.sequence, message.time, self.parse(message.data))
        except Malformed:
            return None
