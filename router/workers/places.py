"""Which workers may be remembered. A heartbeat is input: its sender chooses the names, how many there are, and what they promise.

    a place is given   while a group holds no more than are free: one group alone gets half, and a newcomer always finds one
    a place is lost    to who is gone; under pressure also to a newcomer of the same group, by who was heard only once
    a place is kept    by a worker that was heard again, `PROVEN_S` after it came, for as long as it is heard

So names that are made up do not displace a worker that goes on beating, and give way to one that has just come.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable

Key = tuple[str | None, str]  # (tenant, worker): two tenants may call their workers alike

GRACE_S = 1.0  # who came in this last moment is not displaced by the next one
PROVEN_S = 1.0


class Places:
    """At most `limit`, shared by groups of workers (`group_of` a tenant). It remembers keys, never what was said."""

    def __init__(self, limit: int, group_of: Callable[[str | None], Hashable]) -> None:
        self._limit = limit
        self._group_of = group_of
        self._groups: dict[Key, Hashable] = {}
        self._held: Counter[Hashable] = Counter()
        self._fresh: dict[Hashable, OrderedDict[Key, float]] = {}  # heard once so far, since when; the oldest first

    def has_room(self, key: Key) -> bool:
        """Whether the key's group may take one more."""
        free = self._limit - len(self._groups)
        return free > 0 and self._held[self._group_of(key[0])] <= free

    def displaced_by(self, key: Key, now: float) -> Key | None:
        """Who gives way to a newcomer that finds no room; None: nobody may be asked to."""
        for group in (self._group_of(key[0]), None):
            oldest = next(iter(self._fresh.get(group, {}).items()), None)
            if oldest is not None and now - oldest[1] >= GRACE_S:
                return oldest[0]
        return None

    def take(self, key: Key, now: float) -> None:
        group = self._groups[key] = self._group_of(key[0])
        self._held[group] += 1
        self._fresh.setdefault(group, OrderedDict())[key] = now

    def heard_again(self, key: Key, now: float) -> None:
        """It keeps its place from now on, if it came some time ago."""
        fresh = self._fresh.get(self._groups[key])
        if fresh is not None and (since := fresh.get(key)) is not None and now - since >= PROVEN_S:
            self._prove(key)

    def is_proven(self, key: Key) -> bool:
        return key not in self._fresh.get(self._groups.get(key), {})

    def leave(self, key: Key) -> None:
        self._prove(key)
        group = self._groups.pop(key)
        self._held[group] -= 1
        if not self._held[group]:
            del self._held[group]

    def _prove(self, key: Key) -> None:
        group = self._groups[key]
        fresh = self._fresh.get(group)
        if fresh is not None:
            fresh.pop(key, None)
            if not fresh:
                del self._fresh[group]
