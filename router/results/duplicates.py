"""Which outcomes this instance has metered lately, so that one told twice is counted as such and averaged once.

This memory counts; it does not decide. Whether a usage event is stored twice is for the stream (Nats-Msg-Id) and, for
ever after, for the lake to say: an instance that forgot, or another one, must come to the same end. So a duplicate
is stored again all the same, since nothing here knows whether the first one ever was. What a memory misses, the
PubAck's own `duplicate` mark tells delivery's observer.
"""

from __future__ import annotations

from enum import Enum

from router.contracts.usage import UsageEvent
from router.message import Message


class Seen(Enum):
    """What an outcome is to this instance."""

    FIRST = "first"
    REDELIVERED = "redelivered"  # the same stored message again: nothing new was said
    DUPLICATE = "duplicate"  # another message says the same
    CONFLICT = "conflict"  # another message of the same identity says something else


class Recent:
    """Identities with a digest of what was said, in two generations: at most `limit`, never below half of it once full."""

    def __init__(self, limit: int = 100_000) -> None:
        self._half = max(1, limit // 2)
        self._young: dict[str, tuple[int, int]] = {}
        self._old: dict[str, tuple[int, int]] = {}

    def note(self, event_id: str, event: UsageEvent, message: Message) -> Seen:
        """Compare with what is remembered of this identity; the first content stays the one that counts."""
        # When and under which trace it was said is left out: a worker that repeats itself does so later.
        content = hash((event.provider_id, event.event_type, event.latency_ms, event.cost))
        place = hash((message.sequence, message.stored_ns))
        first = self._young.get(event_id) or self._old.get(event_id)
        if first is None:
            self._remember(event_id, (content, place))
            return Seen.FIRST
        if first[1] == place:
            return Seen.REDELIVERED
        return Seen.DUPLICATE if first[0] == content else Seen.CONFLICT

    def _remember(self, event_id: str, told: tuple[int, int]) -> None:
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}
        self._young[event_id] = told

    def __len__(self) -> int:
        return len(self._young) + len(self._old)
