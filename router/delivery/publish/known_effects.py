"""Do not publish an effect again that is stored already, or on its way.

A stream drops a second message with the same id, but a plain subscriber on the subject receives it.
So an effect that names its owner is published once within `keep_s`:

    first of its id           -> published
    its copy is on its way    -> waits for that copy's publish ack
    its publish ack is known  -> that publish ack, marked duplicate

A reconnect clears this, because a killed server may have lost what it acknowledged last. After a
restart, or on another instance, the effect is published again, and its stream drops it.
"""

from __future__ import annotations

from msgspec.structs import replace

from router.core.bounded_cache import BoundedCache
from router.core.message import Effect
from router.core.outcome import PublishAck

LIMIT = 100_000  # publish acks, some 30 MB; each owner has a share


class KnownEffects:
    """Effects of one subscription, by id."""

    def __init__(self, keep_s: float, limit: int = LIMIT) -> None:
        self._keep_s = keep_s
        self._limit = limit
        self._reconnects = 0  # when the oldest of these was published
        self._stored: BoundedCache[str, PublishAck] = BoundedCache(limit)

    def publish_ack_of(self, effect: Effect, reconnect_count: int, now: float) -> PublishAck | None:
        """The publish ack of an earlier copy, as the server would send it again. `now`: steady
        seconds.
        """
        if reconnect_count != self._reconnects:
            self._reconnects, self._stored = reconnect_count, BoundedCache(self._limit)
            return None
        known = self._stored.get(effect.id, now)
        return None if known is None else replace(known, is_duplicate=True)

    def keep(self, effect: Effect, publish_ack: PublishAck, now: float) -> None:
        self._stored.put(effect.id, publish_ack, now + self._keep_s, now, owner=effect.owner)

    def __len__(self) -> int:
        return len(self._stored)
