"""Slots that tenants share: a tenant holds at most as many as are free, so another tenant always
finds one.

    acquire(tenant)   take a slot while the tenant holds fewer than are free; False: try again later
    release(tenant)   give a slot back

A single tenant gets half of all slots, two busy tenants a third each. No slot is reserved for
tenants without requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable


class FairSlots:
    """A number of slots, for one thread. Each call costs one access to a dictionary."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._held: Counter[Hashable] = Counter()
        self.taken = 0

    def acquire(self, tenant: Hashable) -> bool:
        """Take a slot. Returns whether the tenant got it."""
        if not self.has_room(tenant):
            return False
        self._held[tenant] += 1
        self.taken += 1
        return True

    def has_room(self, tenant: Hashable) -> bool:
        """Whether `acquire` would succeed."""
        return self._held.get(tenant, 0) < self._slots - self.taken

    @property
    def has_free(self) -> bool:
        return self.taken < self._slots

    def release(self, tenant: Hashable) -> None:
        self.taken -= 1
        self._held[tenant] -= 1
        if not self._held[tenant]:
            del self._held[tenant]

    def count(self, tenant: Hashable) -> int:
        """The slots that the tenant holds."""
        return self._held.get(tenant, 0)

    def __len__(self) -> int:
        """How many tenants hold a slot."""
        return len(self._held)
