"""A bounded memory: at most so many values, each until its own time; the one longest unused goes first.

Whoever keeps something clears away a little: once a second, and at once again while there is more, up to `AT_ONCE` of the
longest unused whose time is over. So nothing needs a timer, and where all times are alike nothing that is over lies here for
longer than its own time again. A process that keeps nothing any more clears nothing away; it does not grow either.

An OrderedDict and a number. cachetools' caches with a time to live do the same at five times the cost, and this is
asked two or three times a message. Nothing here is in the collector's sight (`gc=False`; keys should be text for the same
reason): what stays for minutes would make it look through twenty thousand things every second, 5 ms each time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from math import inf
from typing import Generic, TypeVar

from msgspec import Struct

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

AT_ONCE = 16  # cleared away by one call; a thousand would be heard in the loop
LOOK_S = 1.0


class _Kept(Struct, Generic[V], frozen=True, gc=False):
    value: V
    until: float


class Memory(Generic[K, V]):
    """Times are seconds on one clock of the caller's choice."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: OrderedDict[K, _Kept[V]] = OrderedDict()
        self._look_at = -inf

    def recall(self, key: K, now: float) -> V | None:
        """What is kept under `key`, None when its time is over; being asked for keeps it from being the next to go."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        if kept.until <= now:
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return kept.value

    def keep(self, key: K, value: V, until: float, now: float) -> None:
        self._kept[key] = _Kept(value, until)
        self._kept.move_to_end(key)
        if len(self._kept) > self._limit:
            self._kept.popitem(last=False)
        if now >= self._look_at:
            self._clear_away(now)

    def forget(self, key: K) -> None:
        self._kept.pop(key, None)

    def keys(self) -> list[K]:
        """Of all that is kept, the one kept first in front. A look that takes milliseconds: not for every message."""
        return list(dict.keys(self._kept))  # an OrderedDict's own walk takes ten times as long

    def peek(self, key: K, now: float) -> V | None:
        """As `recall`, but being looked at counts for nothing."""
        kept = self._kept.get(key)
        return kept.value if kept is not None and kept.until > now else None

    def __len__(self) -> int:
        return len(self._kept)

    def _clear_away(self, now: float) -> None:
        kept = self._kept
        for _ in range(AT_ONCE):
            if not kept or kept[next(iter(kept))].until > now:
                self._look_at = now + LOOK_S
                return
            kept.popitem(last=False)
