"""Places that tenants share: whoever holds many leaves as many free, so a newcomer always finds one.

    take(tenant)   while the tenant holds fewer places than are free; False: ask again later
    give(tenant)   a place back

One tenant alone gets half of all places, two busy ones a third each, and nothing is reserved for those who are not there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable


class Shares:
    """So many places. It lives on one thread, and what it costs is a dictionary's."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._held: Counter[Hashable] = Counter()
        self.taken = 0

    def take(self, tenant: Hashable) -> bool:
        """Whether the tenant has one more now."""
        if not self.has_room(tenant):
            return False
        self._held[tenant] += 1
        self.taken += 1
        return True

    def has_room(self, tenant: Hashable) -> bool:
        """Whether `take` would give the tenant one."""
        return self._held.get(tenant, 0) < self._places - self.taken

    def give(self, tenant: Hashable) -> None:
        """Give one place back."""
        self.taken -= 1
        self._held[tenant] -= 1
        if not self._held[tenant]:
            del self._held[tenant]

    def held(self, tenant: Hashable) -> int:
        return self._held.get(tenant, 0)

    def __len__(self) -> int:
        """How many tenants hold a place."""
        return len(self._held)
