"""Slots that tenants share: a tenant holds at most as many as are free, so another tenant always
finds one.

    acquire(tenant)   take a slot while the tenant holds fewer than are free; False: try again later
    release(tenant)   give a slot back

Both take several at once where slots are bytes.

A single tenant gets half of all slots, two busy tenants a third each. No slot is reserved for
tenants without requests. `FairTurns` lets those wait for whom there is none.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


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


class FairTurns:
    """Slots for which tenants wait: one that is given back goes to the next tenant that may have
    it, and of its calls to the one that has waited longest. For one loop.
    """

    def __init__(self, slots: int) -> None:
        self._slots = FairSlots(slots)
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def hold(self, tenant: Hashable) -> AsyncIterator[None]:
        """A slot for the duration of the block."""
        await self._acquire(tenant)
        try:
            yield
        finally:
            self._release(tenant)

    def count_waiting(self, tenant: Hashable) -> int:
        return len(self._waiting.get(tenant, ()))

    async def _acquire(self, tenant: Hashable) -> None:
        if tenant not in self._waiting and self._slots.acquire(tenant):
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(tenant, turn)
            else:  # it was given the slot meanwhile
                self._release(tenant)
            raise

    def _release(self, tenant: Hashable) -> None:
        self._slots.release(tenant)
        self._give_all()

    def _give_all(self) -> None:
        while any(self._give(waiting) for waiting in list(self._waiting)):
            pass

    def _give(self, tenant: Hashable) -> bool:
        """Whether the tenant got a slot; then it stands behind the others."""
        turns = self._waiting[tenant]
        # one that is cancelled leaves when its task runs
        turn = next((turn for turn in turns if not turn.cancelled()), None)
        if turn is None or not self._slots.acquire(tenant):
            return False
        turns.remove(turn)
        del self._waiting[tenant]
        turn.set_result(None)
        if turns:
            self._waiting[tenant] = turns
        return True

    def _leave(self, tenant: Hashable, turn: asyncio.Future[None]) -> None:
        turns = self._waiting[tenant]
        turns.remove(turn)
        if not turns:
            del self._waiting[tenant]
        # one that came behind it may have found a slot free, and its tenant waiting
        self._give_all()
