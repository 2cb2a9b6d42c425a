"""Limits of this process: pipelines that run at once, requests that wait for a slot, and each
tenant's share of both.

    try_acquire ── a slot is free, and the tenant holds fewer than are free ──> the pipeline runs
    enqueue ── the tenant's share of the queue has room ──> it waits; freed slots go to the waiting tenants in turn
            ── another of its tenant gives way (`core.fair_queue`) ──> it waits instead of that one
    neither ──> `TOO_MANY_PIPELINES`: the request is answered `overloaded`

A tenant may hold at most as many slots as are free, and the same holds for the queue, by requests
and by bytes: a lone tenant gets half, two get a third each, and the next one always finds room.
(Choudhury and Hahne's dynamic thresholds: https://doi.org/10.1109/90.664262) Slots that were
borrowed come back only when their calls end, so a free part must remain.
"""

from __future__ import annotations

import asyncio

from router.contracts.decision import OVERLOADED, Refusal
from router.core.fair_queue import FairQueue
from router.core.fair_slots import FairSlots

RETRY_AFTER_MS = 1_000
TOO_MANY_PIPELINES = Refusal(
    OVERLOADED,
    "Too many requests with extensions are under way here; try again",
    {"retry_after_ms": RETRY_AFTER_MS},
)
QUEUE_BYTES = 64 * 1024 * 1024

# whether its tenant was given a slot; False: its place was given to another of its tenant
SlotWaiter = asyncio.Future[bool]


class PipelineSlots:
    """`try_acquire`, or else `enqueue` and `wait`; then `release`, whatever happened."""

    def __init__(self, slots: int = 128, queue: int = 1024, queue_bytes: int = QUEUE_BYTES) -> None:
        self._slots = FairSlots(slots)
        self._queue: FairQueue[tuple[str, SlotWaiter]] = FairQueue(queue, queue_bytes)

    def try_acquire(self, tenant: str) -> bool:
        """Take a slot now, if the tenant may have one and none of its requests waits."""
        return not self._queue.has_waiting(tenant) and self._slots.acquire(tenant)

    def enqueue(self, tenant: str, size: int, *, goes_first: bool = False) -> SlotWaiter | None:
        """A place in the queue for a request of so many bytes; None: the tenant's share is taken."""
        waiter: SlotWaiter = asyncio.get_running_loop().create_future()
        queue, item = self._queue, (tenant, waiter)
        if queue.put(tenant, item, size, goes_first=goes_first):
            return waiter
        replaced = queue.put_instead(tenant, item, size, goes_first=goes_first)
        if replaced is None:
            return None
        if not replaced[1].done():
            replaced[1].set_result(False)
        return waiter

    async def wait(self, tenant: str, waiter: SlotWaiter) -> bool:
        """Wait for a slot; False: another request has the place. Raises CancelledError: then the
        request holds none.
        """
        try:
            return await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled() and waiter.result():
                self.release(tenant)  # it was handed over in the same turn of the loop
            raise

    def release(self, tenant: str) -> None:
        """Free the slot, and give it to the waiting tenants in turn."""
        self._slots.release(tenant)
        while (waiting := self._queue.take_of(self._slots.has_room)) is not None:
            tenant, waiter = waiting
            if not waiter.done():  # else its request was cancelled while it waited
                self._slots.acquire(tenant)
                waiter.set_result(True)
