"""A bounded cache: a limit for all values, an expiry for each; the least recently used value is
removed first.

`put` removes expired values: once a second, and at each further call while there are more, up to
AT_ONCE of the least recently used ones. So no timer is needed. If all values live equally long,
none stays longer than twice that time. Without calls of `put` no value is removed, and none is
added either.

Each value has an owner, usually a tenant. While an owner holds more than 1/SHARES of the cache,
only values of such owners are removed to make room: a tenant that floods the cache does not remove
the values of others. Each value also has a weight: a large value counts as several, so the limit of
values is a limit of bytes too.

An OrderedDict and two numbers per value. cachetools' caches with a time to live cost five times as
much, and this one is used two or three times a message. The garbage collector does not track the
values (`gc=False`; keys should be text for the same reason): else it would scan twenty thousand
long-lived objects every second, 5 ms each time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from math import ceil, inf
from typing import Generic, TypeVar

from msgspec import Struct

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# removed, or examined to make room, by one call; a thousand would block the loop noticeably
MAX_REMOVED_PER_CALL = 16
CLEANUP_INTERVAL_S = 1.0
# values of an owner below this part of the limit are not removed while another owner holds more
SHARES = 64
PART = 8_192  # values of one part of a large cache, about
_SLACK = 8  # an eighth above the limit, any owner's values are removed
_UNIT = 1024  # characters of one weight


class CacheEntry(Struct, Generic[V], frozen=True, gc=False):
    value: V
    until: float
    owner: str
    weight: int


class OwnerWeights(Struct, gc=False):
    """What each owner holds, and how many hold more than their share."""

    share: int
    of_owner: dict[str, int]
    heavy: int = 0


class BoundedCache(Generic[K, V]):
    """Times are seconds of a clock that the caller chooses. `on_evicted` is called with each key
    that is removed to make room. `owners`: those of a larger cache of which this is a part.
    """

    def __init__(
        self,
        limit: int,
        on_evicted: Callable[[K], None] | None = None,
        *,
        owners: OwnerWeights | None = None,
    ) -> None:
        self._limit = limit
        self._owners = owners if owners is not None else OwnerWeights(max(1, limit // SHARES), {})
        self._on_evicted = on_evicted
        self._entries: OrderedDict[K, CacheEntry[V]] = OrderedDict()
        self._weight = 0
        self._next_cleanup_at = -inf

    def get(self, key: K, now: float) -> V | None:
        """The value of `key`, or None if it is missing or expired. It becomes the most recently
        used.
        """
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.until <= now:
            self.remove(key)
            return None
        self._entries.move_to_end(key)
        return entry.value

    def put(  # noqa: PLR0917 - once a message, by a part without names
        self, key: K, value: V, until: float, now: float, owner: str = "", weight: int = 1
    ) -> None:
        if key in self._entries:  # seldom
            self.remove(key)
        self._entries[key] = CacheEntry(value, until, owner, weight)
        self._weight += weight  # `_weigh` in place: this is called once a message
        owners = self._owners
        held = owners.of_owner.get(owner, 0)
        owners.of_owner[owner] = held + weight
        if held <= owners.share < held + weight:
            owners.heavy += 1
        if self._weight > self._limit:
            self._make_room(now)
        if now >= self._next_cleanup_at:
            self._remove_expired(now)

    def remove(self, key: K) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._weigh(entry.owner, -entry.weight)

    def keys(self) -> list[K]:
        """All keys, the least recently used first. It takes milliseconds: not for every message."""
        # an OrderedDict's own iteration takes ten times as long
        return list(dict.keys(self._entries))

    def peek(self, key: K, now: float) -> V | None:
        """As `get`, without becoming the most recently used."""
        entry = self._entries.get(key)
        return entry.value if entry is not None and entry.until > now else None

    def find_expiry(self, key: K) -> float:
        """The `until` of the value; -inf if it is missing."""
        entry = self._entries.get(key)
        return -inf if entry is None else entry.until

    def __len__(self) -> int:
        return len(self._entries)

    def _weigh(self, owner: str, more: int) -> None:
        self._weight += more
        owners = self._owners
        before = owners.of_owner.get(owner, 0)
        after = before + more
        if after:
            owners.of_owner[owner] = after
        else:
            del owners.of_owner[owner]
        owners.heavy += (after > owners.share) - (before > owners.share)

    def _make_room(self, now: float) -> None:
        entries, owners = self._entries, self._owners
        of_owner, share = owners.of_owner, owners.share
        for _ in range(MAX_REMOVED_PER_CALL):
            if self._weight <= self._limit:
                return
            key, entry = entries.popitem(last=False)
            held = of_owner[entry.owner]
            if owners.heavy and held <= share and entry.until > now:
                entries[key] = entry  # the most recently used now: another owner is above its share
                continue
            self._weight -= entry.weight  # `_evict` in place: this is called once a message
            left = held - entry.weight
            if left:
                of_owner[entry.owner] = left
            else:
                del of_owner[entry.owner]
            owners.heavy -= left <= share < held
            if self._on_evicted is not None:
                self._on_evicted(key)
        while self._weight > self._limit + self._limit // _SLACK:
            self._evict(next(iter(self._entries)))

    def _evict(self, key: K) -> None:
        self.remove(key)
        if self._on_evicted is not None:
            self._on_evicted(key)

    def _remove_expired(self, now: float) -> None:
        entries = self._entries
        for _ in range(MAX_REMOVED_PER_CALL):
            if not entries or entries[key := next(iter(entries))].until > now:
                self._next_cleanup_at = now + CLEANUP_INTERVAL_S
                return
            self.remove(key)


class PartedCache(Generic[K, V]):
    """A large `BoundedCache` in parts of about PART values, by the hash of the key. The least
    recently used value of the new one's part is removed first; owners have shares of the whole.

    A dictionary whose old keys make room for new ones is built anew now and then. With 100 000
    values that took 14 to 35 ms each 250 000 calls of `put`, and no message was handled meanwhile.
    To build a part anew took 1 to 3 ms, and the parts do it at different moments.
    """

    def __init__(self, limit: int) -> None:
        # odd: a dictionary places its keys by the low bits of the same hash
        self._count = ceil(limit / PART) | 1
        owners = OwnerWeights(max(1, limit // SHARES), {})
        self._parts: list[BoundedCache[K, V]] = [
            BoundedCache(ceil(limit / self._count), owners=owners) for _ in range(self._count)
        ]

    def get(self, key: K, now: float) -> V | None:
        # `BoundedCache.get` in place, as `peek` below: both are asked once a message
        part = self._parts[hash(key) % self._count]
        entry = part._entries.get(key)
        if entry is None:
            return None
        if entry.until <= now:
            part.remove(key)
            return None
        part._entries.move_to_end(key)
        return entry.value

    def get_or_put(
        self, key: K, value: V, until: float, now: float, *, owner: str = ""
    ) -> V | None:
        """As `get`; where there is no value, this one is kept from now on, and None is returned."""
        part = self._parts[hash(key) % self._count]
        entry = part._entries.get(key)
        if entry is not None and entry.until > now:
            part._entries.move_to_end(key)
            return entry.value
        part.put(key, value, until, now, owner, 1)
        return None

    def put(
        self, key: K, value: V, until: float, now: float, *, owner: str = "", weight: int = 1
    ) -> None:
        self._parts[hash(key) % self._count].put(key, value, until, now, owner, weight)

    def peek(self, key: K, now: float) -> V | None:
        entry = self._parts[hash(key) % self._count]._entries.get(key)
        return entry.value if entry is not None and entry.until > now else None

    def find_expiry(self, key: K) -> float:
        return self._parts[hash(key) % self._count].find_expiry(key)

    def list_keys(self) -> Iterator[list[K]]:
        """Those of each part, the least recently used first."""
        return (part.keys() for part in self._parts)

    def __len__(self) -> int:
        return sum(map(len, self._parts))


def weight_of(metadata: Mapping[str, str]) -> int:
    """The weight of a value with this metadata: one, and one more for each kilobyte."""
    # once a message: a sum takes three times as long
    return 1 + (len("".join(metadata)) + len("".join(metadata.values()))) // _UNIT
