"""Which outcomes this instance has metered lately, so that one told twice is counted as such and averaged once.

This memory counts; it does not decide. Whether a usage event is stored twice is for the stream (Nats-Msg-Id) and, for
ever after, for the lake to say: an instance that forgot, or another one, must come to the same end. So a duplicate
has its usage event all the same, since nothing here knows whether the first one was stored; `delivery.known_effects` knows it of
those that this instance stored, and publishes none of them again. How many duplicates there are, for
all instances together, is told by the PubAck's own `duplicate` mark, which delivery's observer hears.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from router.clock import Clock, steady
from router.contracts.usage import UsageEvent
from router.memory import Memory
from router.message import Message


class Seen(Enum):
    """What an outcome is to this instance."""

    FIRST = "first"
    REDELIVERED = "redelivered"  # the same stored message again: nothing new was said
    DUPLICATE = "duplicate"  # another message says the same
    CONFLICT = "conflict"  # another message of the same identity says something else


class _Told(Struct, frozen=True, gc=False):
    """Hashes: of what was said, and of the stored message that said it."""

    content: int
    place: int


class Recent:
    """Identities with a digest of what was said, for `keep_s` each; at most `limit`, the one longest unheard of goes first."""

    def __init__(self, limit: int = 100_000, keep_s: float = 600.0, clock: Clock = steady) -> None:
        self._keep_s = keep_s
        self._clock = clock
        self._told: Memory[str, _Told] = Memory(limit)

    def note(self, event_id: str, event: UsageEvent, message: Message) -> Seen:
        """Compare with what is remembered of this identity; the first content stays the one that counts."""
        # When and under which trace it was said is left out: a worker that repeats itself does so later.
        content = hash((event.provider_id, event.event_type, event.latency_ms, event.cost))
        place = hash((message.sequence, message.stored_ns))
        now = self._clock()
        first = self._told.recall(event_id, now)
        if first is None:
            self._told.keep(event_id, _Told(content, place), now + self._keep_s, now, owner=event.tenant_id)
            return Seen.FIRST
        if first.place == place:
            return Seen.REDELIVERED
        return Seen.DUPLICATE if first.content == content else Seen.CONFLICT

    def __len__(self) -> int:
        return len(self._told)
