"""Decide which workers are remembered. A heartbeat is input: its sender chooses names, how many there are, and what they promise.

    gets a place    a new worker, while its group holds no more than are free: one group alone gets half, so newcomers find one
    loses a place   a dead worker; if no place is free, also one that sent a single heartbeat, to a newcomer of its group
    keeps a place   a worker with a second heartbeat, at least `PROVEN_S` after the first, as long as it goes on

So invented names do not displace a worker that goes on beating, and give way to one that has just come.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable

Key = tuple[str | None, str]  # (tenant, worker): two tenants may use one worker name

GRACE_S = 1.0  # a worker that came this recently is not displaced
PROVEN_S = 1.0


class WorkerAdmission:
    """At most `limit` places, shared by groups of workers (`group_of` a tenant). It holds keys, not heartbeats."""

    def __init__(self, limit: int, group_of: Callable[[str | None], Hashable]) -> None:
        self._limit = limit
        self._group_of = group_of
        self._groups: dict[Key, Hashable] = {}
        self._held: Counter[Hashable] = Counter()
        self._fresh: dict[Hashable, OrderedDict[Key, float]] = {}  # one heartbeat so far, and its time; the oldest first

    def has_room(self, key: Key) -> bool:
        """Whether the key's group may take one more place."""
        free = self._limit - len(self._groups)
        return free > 0 and self._held[self._group_of(key[0])] <= free

    def find_weakest(self, key: Key, now: float) -> Key | None:
        """Return the worker that gives way to a newcomer when no place is free, or None."""
        for group in (self._group_of(key[0]), None):
            oldest = next(iter(self._fresh.get(group, {}).items()), None)
            if oldest is not None and now - oldest[1] >= GRACE_S:
                return oldest[0]
        return None

    def admit(self, key: Key, now: float) -> None:
        """Give a new worker a place."""
        group = self._groups[key] = self._group_of(key[0])
        self._held[group] += 1
        self._fresh.setdefault(group, OrderedDict())[key] = now

    def on_heartbeat(self, key: Key, now: float) -> None:
        """Mark a worker as proven if its first heartbeat is some time ago."""
        fresh = self._fresh.get(self._groups[key])
        if fresh is not None and (since := fresh.get(key)) is not None and now - since >= PROVEN_S:
            self._prove(key)

    def is_proven(self, key: Key) -> bool:
        return key not in self._fresh.get(self._groups.get(key), {})

    def remove(self, key: Key) -> None:
        """Free a worker's place."""
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
