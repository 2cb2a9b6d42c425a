"""Slots that tenants share: a tenant holds at most as many as are free, so another tenant always
finds one.

    acquire(tenant)   take a slot while the tenant holds fewer than are free; False: try again later
    release(tenant)   give a slot back

Both take several at once where slots are bytes.

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

    def acquire(self, tenant: Hashable, count: int = 1) -> bool:
        """Take a slot, or several. Returns whether the tenant got them."""
        if not self.has_room(tenant, count):
            return False
        self._held[tenant] += count
        self.taken += count
        return True

    def has_room(self, tenant: Hashable, count: int = 1) -> bool:
        """Whether `acquire` would succeed: afterwards no fewer are free than the tenant holds, or
        one fewer.
        """
        return self._held.get(tenant, 0) + 2 * count <= self._slots - self.taken + 1

    @property
    def has_free(self) -> bool:
        return self.taken < self._slots

    def release(self, tenant: Hashable, count: int = 1) -> None:
        self.taken -= count
        self._held[tenant] -= count
        if not self._held[tenant]:
            del self._held[tenant]

    def count(self, tenant: Hashable) -> int:
        """The slots that the tenant holds."""
        return self._held.get(tenant, 0)

    def __len__(self) -> int:
        """How many tenants hold a slot."""
        return len(self._held)
