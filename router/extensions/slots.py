"""How many pipelines run at once in this process, how many wait for their turn, and which share of both one tenant may have.

    take ── a slot is free, and the tenant holds fewer than are free ──> it runs
    wait ── the tenant's share of the queue has room ──> it waits; freed slots go to the waiting tenants in turn
    neither ──> `FULL`: the request is answered `overloaded`

A tenant may hold at most as many slots as are free, and the same holds for the queue, by requests and by bytes: a lone tenant gets
half, two get a third each, and the next one always finds room. (Choudhury and Hahne's dynamic thresholds:
https://doi.org/10.1109/90.664262) Slots that were borrowed come back only when their calls end, so a free part must remain.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

from msgspec import Struct, field

from router.contracts.decision import OVERLOADED, Refusal

RETRY_AFTER_MS = 1_000
FULL = Refusal(OVERLOADED, "Too many requests with extensions are under way here; try again", {"retry_after_ms": RETRY_AFTER_MS})
QUEUE_BYTES = 64 * 1024 * 1024


class Waiter(Struct):
    """A request that waits for a slot. `size`: bytes of its message."""

    turn: asyncio.Future[None]
    size: int


class TenantShare(Struct):
    """What one tenant holds."""

    running: int = 0
    waiting: deque[Waiter] = field(default_factory=deque)
    waiting_bytes: int = 0

    @property
    def is_idle(self) -> bool:
        return not self.running and not self.waiting


class PipelineSlots:
    """`take`, or else `wait` unless `can_wait` says no; then `give` back, whatever happened."""

    def __init__(self, slots: int = 128, queue: int = 1024, queue_bytes: int = QUEUE_BYTES) -> None:
        self._free = slots
        self._queue = queue  # free places
        self._queue_bytes = queue_bytes  # free bytes
        self._shares: OrderedDict[str, TenantShare] = OrderedDict()  # of tenants that hold something; the next to be served first

    def take(self, tenant: str) -> bool:
        """One slot at once, if the tenant may have one."""
        share = self._shares.get(tenant)
        if not self._may_run(share) or (share is not None and share.waiting):
            return False
        self._start(tenant)
        return True

    def can_wait(self, tenant: str, size: int) -> bool:
        """Whether a request of so many bytes has room in its tenant's share of the queue."""
        share = self._shares.get(tenant)
        places, used = (len(share.waiting), share.waiting_bytes) if share is not None else (0, 0)
        return places < self._queue and used + size <= self._queue_bytes

    async def wait(self, tenant: str, size: int) -> None:
        """One slot, in the tenant's own order. Raises CancelledError: then nothing is held."""
        waiter = Waiter(asyncio.get_running_loop().create_future(), size)
        self._enqueue(tenant, waiter)
        try:
            await waiter.turn
        except asyncio.CancelledError:
            if waiter.turn.done() and not waiter.turn.cancelled():
                self.give(tenant)  # it was handed over in the same turn of the loop
            else:
                self._dequeue(tenant, waiter)
            raise

    def give(self, tenant: str) -> None:
        """Back to the free ones; then to the tenants that wait."""
        self._shares[tenant].running -= 1
        self._free += 1
        self._forget_idle(tenant)
        while self._serve_next():
            pass

    # -- helpers ---------------------------------------------------------------------------------------------

    def _may_run(self, share: TenantShare | None) -> bool:
        return self._free > (share.running if share is not None else 0)

    def _start(self, tenant: str) -> None:
        self._shares.setdefault(tenant, TenantShare()).running += 1
        self._free -= 1

    def _serve_next(self) -> bool:
        """Start the first request of the first tenant in turn that may run one; False when there is none."""
        tenant = next((name for name, share in self._shares.items() if share.waiting and self._may_run(share)), None)
        if tenant is None:
            return False
        waiter = self._shares[tenant].waiting[0]
        self._dequeue(tenant, waiter)
        if not waiter.turn.done():  # else cancelled, and its task has not run yet
            self._start(tenant)
            self._shares.move_to_end(tenant)
            waiter.turn.set_result(None)
        return True

    def _enqueue(self, tenant: str, waiter: Waiter) -> None:
        share = self._shares.setdefault(tenant, TenantShare())
        share.waiting.append(waiter)
        share.waiting_bytes += waiter.size
        self._queue -= 1
        self._queue_bytes -= waiter.size

    def _dequeue(self, tenant: str, waiter: Waiter) -> None:
        share = self._shares.get(tenant)
        if share is None or waiter not in share.waiting:
            return
        share.waiting.remove(waiter)
        share.waiting_bytes -= waiter.size
        self._queue += 1
        self._queue_bytes += waiter.size
        self._forget_idle(tenant)

    def _forget_idle(self, tenant: str) -> None:
        if (share := self._shares.get(tenant)) is not None and share.is_idle:
            del self._shares[tenant]
