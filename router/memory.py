"""A bounded memory: at most so much, each value until its own time; the one longest unused goes first.

Who keeps something clears away a little: once a second, and at once again while there is more, up to `AT_ONCE` of the
longest unused whose time is over. So nothing needs a timer, and where all times are alike nothing that is over lies here for
longer than its own time again. A process that keeps nothing any more clears nothing away; it does not grow either.

What is kept has an owner, a tenant nearly always. While an owner holds more than a `SHARES`th of the memory, room is made among the
values of such owners alone: an owner that holds less loses nothing because of one that floods. And it has a weight: a value that is
larger than usual counts as several, so a limit of values is a limit of bytes too.

An OrderedDict and two numbers. cachetools' caches with a time to live do the same at five times the cost, and this is
asked two or three times a message. Nothing here is in the collector's sight (`gc=False`; keys should be text for the same
reason): what stays for minutes would make it look through twenty thousand things every second, 5 ms each time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from math import inf
from typing import Generic, TypeVar

from msgspec import Struct

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

AT_ONCE = 16  # cleared away, or looked at to make room, by one call; a thousand would be heard in the loop
LOOK_S = 1.0
SHARES = 64  # what an owner holds below a share of the limit is left alone while another one holds more
_SLACK = 8  # an eighth above the limit, room is made whosever it is
_UNIT = 1024  # characters of one weight


class _Kept(Struct, Generic[V], frozen=True, gc=False):
    value: V
    until: float
    owner: str
    weight: int


class Memory(Generic[K, V]):
    """Times are seconds on one clock of the caller's choice. `forgotten` hears of each key that makes room for others."""

    def __init__(self, limit: int, forgotten: Callable[[K], None] | None = None) -> None:
        self._limit = limit
        self._share = max(1, limit // SHARES)
        self._forgotten = forgotten
        self._kept: OrderedDict[K, _Kept[V]] = OrderedDict()
        self._weight = 0
        self._of_owner: dict[str, int] = {}  # weights
        self._heavy = 0  # owners above their share
        self._look_at = -inf

    def recall(self, key: K, now: float) -> V | None:
        """What is kept under `key`, None when its time is over; being asked for keeps it from being the next to go."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        if kept.until <= now:
            self.forget(key)
            return None
        self._kept.move_to_end(key)
        return kept.value

    def keep(self, key: K, value: V, until: float, now: float, *, owner: str = "", weight: int = 1) -> None:
        before = self._kept.pop(key, None)
        if before is not None:
            self._weigh(before.owner, -before.weight)
        self._kept[key] = _Kept(value, until, owner, weight)
        self._weight += weight  # `_weigh` in place: this is called once a message
        held = self._of_owner.get(owner, 0)
        self._of_owner[owner] = held + weight
        self._heavy += held <= self._share < held + weight
        if self._weight > self._limit:
            self._make_room(now)
        if now >= self._look_at:
            self._clear_away(now)

    def forget(self, key: K) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._weigh(kept.owner, -kept.weight)

    def keys(self) -> list[K]:
        """Of all that is kept, the one kept first in front. A look that takes milliseconds: not for every message."""
        return list(dict.keys(self._kept))  # an OrderedDict's own walk takes ten times as long

    def peek(self, key: K, now: float) -> V | None:
        """As `recall`, but being looked at counts for nothing."""
        kept = self._kept.get(key)
        return kept.value if kept is not None and kept.until > now else None

    def __len__(self) -> int:
        return len(self._kept)

    def _weigh(self, owner: str, more: int) -> None:
        self._weight += more
        before = self._of_owner.get(owner, 0)
        after = before + more
        if after:
            self._of_owner[owner] = after
        else:
            del self._of_owner[owner]
        self._heavy += (after > self._share) - (before > self._share)

    def _make_room(self, now: float) -> None:
        for _ in range(AT_ONCE):
            if self._weight <= self._limit:
                return
            key = next(iter(self._kept))
            kept = self._kept[key]
            if self._heavy and kept.until > now and self._of_owner[kept.owner] <= self._share:
                self._kept.move_to_end(key)  # not its turn: there is an owner above its share
            else:
                self._remove(key)
        while self._weight > self._limit + self._limit // _SLACK:
            self._remove(next(iter(self._kept)))

    def _remove(self, key: K) -> None:
        self.forget(key)
        if self._forgotten is not None:
            self._forgotten(key)

    def _clear_away(self, now: float) -> None:
        kept = self._kept
        for _ in range(AT_ONCE):
            if not kept or kept[key := next(iter(kept))].until > now:
                self._look_at = now + LOOK_S
                return
            self.forget(key)


def weight_of(metadata: Mapping[str, str]) -> int:
    """Of a value that holds this: one, and one more for each kilobyte."""
    return 1 + sum(len(name) + len(text) for name, text in metadata.items()) // _UNIT
