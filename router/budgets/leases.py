"""Takes slices of budgets from their documents, ahead of the decisions that use them, and gives
back what is not used.

    slice   what this instance may reserve (`BudgetSlice`)
    lease   the entry of the document that holds the slice, until a time; one follows another
    grant   what a change of the document gives a lease, and so its slice

    asked ──> run (a child) ──> grant by compare-and-set ──> the slice is larger, or is refused
    a lease is over ──> the rest of the slice moves to the next lease; what it has reserved stays until it is settled, or expires
    drain ──> the rest is given back

A lost answer costs room for a while, never money: the slice does not grow, and the lease expires
(docs/reference/budgets.md#bound).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from router.budgets.model import (
    BudgetSlice,
    BudgetTable,
    BudgetWindow,
    expire_leases,
    find_window,
    grant_lease,
    move_lease,
    return_lease,
)
from router.budgets.model.spent_record import SpentLease, SpentRecord
from router.budgets.notices import find_notices, mark_notices, raise_notices
from router.budgets.spent_documents import SpentDocuments
from router.core.errors import RouterError
from router.delivery.wire.server_clock import ServerClock
from router.operate.alerts import Alerts
from router.process.observability import LogRateLimit, events, logs

log = logs.logger(__name__)

LOOK_S = 0.5  # between two looks for leases that are over
RETURN_S = 3.0  # for giving back at a drain


class _Grant(Struct):
    """What one change of a document gives a slice."""

    granted: int = 0
    moved: int = 0
    left: int = 0
    notices: tuple[int, ...] = ()
    is_counted: bool = False


class BudgetLeases:
    """`reservation_s`: a lease is charged for so long, and expires as long after that."""

    def __init__(
        self,
        table: BudgetTable,
        documents: SpentDocuments,
        clock: ServerClock,
        alerts: Alerts,
        reservation_s: float,
    ) -> None:
        self._table = table
        self._documents = documents
        self._clock = clock
        self._alerts = alerts
        self._reservation_s = reservation_s
        self._asked: dict[int, BudgetSlice] = {}
        self._wake = asyncio.Event()
        self._lines = LogRateLimit(every_s=60.0)
        table.on_asked = self._on_asked

    def _on_asked(self, slice_: BudgetSlice) -> None:
        self._asked[id(slice_)] = slice_
        self._wake.set()

    async def run(self) -> None:
        """A child of the tree: until cancelled, which gives back what is left."""
        try:
            while True:
                await self._wait()
                if self._table.tenants:
                    await self._work()
                else:
                    self._asked.clear()  # the last budget was deleted
        finally:
            await asyncio.shield(self._give_back(list(self._table.slices.values())))

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(LOOK_S):
                await self._wake.wait()
        except TimeoutError:
            pass
        # also where no work follows: a wait for an event that is set lets no other task run
        self._wake.clear()

    async def _work(self) -> None:
        asked, self._asked = self._asked, {}
        try:
            await self._clock.read()
            slices = list(self._table.slices.values())
            over = [
                slice_
                for slice_ in slices
                if slice_.remaining
                and slice_.lease_ends <= self._clock()
                and id(slice_) not in asked
            ]
            kept = [slice_ for slice_ in slices if id(slice_) in asked]
            results = await asyncio.gather(
                *map(self._take, kept), *map(self._move, over), return_exceptions=True
            )
            # when all are done: one document stops no other slice
            if (failure := next(filter(None, results), None)) is not None:
                raise failure
        except RouterError as exc:
            if self._lines.allow("leases"):
                log.warning(events.BUDGET_UNAVAILABLE, cause=str(exc))
            await asyncio.sleep(LOOK_S)
            self._wake.set()
        finally:
            # asked for again until the bucket answers
            again = {key: slice_ for key, slice_ in asked.items() if slice_.is_asked}
            self._asked = {**again, **self._asked}

    async def _take(self, one: BudgetSlice) -> None:
        """Take what was asked for. Raises BrokerUnavailable."""
        window = self._enter_window(one, await self._find_kept(one))
        need, moved = one.need, self._begin_lease(one)
        missing = max(1, need - one.remaining - moved)
        grant = _Grant()

        def change(record: SpentRecord) -> SpentRecord | None:
            nonlocal grant
            grant = _Grant(is_counted=record.is_counted)
            if not record.is_counted:
                return None
            changed, grant = self._grant(one, record, missing, moved)
            return changed

        record = await self._documents.change(one.budget, window, change)
        if not grant.is_counted:
            _undo_lease(one, moved)
            self._on_asked(one)  # the settlement counts the window first
            await asyncio.sleep(0.05)
            return
        raise_notices(self._alerts, one.budget, window, record, grant.notices)
        one.left = grant.left
        if grant.granted:
            one.on_granted(grant.granted + grant.moved)
        else:
            one.remaining += grant.moved
            one.on_refused(max(1, need), self._clock())

    def _grant(
        self, one: BudgetSlice, record: SpentRecord, missing: int, moved: int
    ) -> tuple[SpentRecord | None, _Grant]:
        lease_id, ends_ms = (
            self._name(one.number),
            round((one.lease_ends + self._reservation_s) * 1000),
        )
        changed = expire_leases(record, round(self._clock() * 1000))
        changed, moved = move_lease(
            changed, self._name(one.number - 1), lease_id, SpentLease(moved, ends_ms)
        )
        wanted = SpentLease(max(one.size, missing), ends_ms)
        grant = grant_lease(changed, one.budget.amount, lease_id, wanted, least=missing)
        notices = find_notices(
            grant.record, one.budget.amount, has_no_room=not grant.granted and missing > 1
        )
        marked = mark_notices(grant.record, notices)
        return (marked if marked != record else None), _Grant(
            grant.granted, moved, grant.left, notices, True
        )

    async def _find_kept(self, slice_: BudgetSlice) -> bool:
        """Whether the document of the window that begins now holds this instance's lease, carried
        from the one before.
        """
        window = find_window(slice_.budget.window, self._clock())
        if window.starts_s == slice_.starts_s or not slice_.remaining:
            return True
        document = await self._documents.open(slice_.budget, window)
        return document.record.is_counted and self._name(slice_.number) in document.record.leases

    def _enter_window(self, slice_: BudgetSlice, is_kept: bool) -> BudgetWindow:
        window = find_window(slice_.budget.window, self._clock())
        if window.starts_s != slice_.starts_s:
            slice_.starts_s, slice_.ends_s = window.starts_s, window.ends_s
            slice_.remaining = slice_.remaining if is_kept else 0
        return window

    def _begin_lease(self, slice_: BudgetSlice) -> int:
        """Begin another lease where the present one is over; what it has not used moves, and is in
        neither until that is stored.
        """
        if slice_.lease_ends > self._clock():
            return 0
        moved, slice_.remaining = slice_.remaining, 0
        slice_.number += 1
        slice_.lease_ends = self._clock() + self._reservation_s
        return moved

    async def _move(self, slice_: BudgetSlice) -> None:
        """The lease of a slice that is not asked for is over: give back what it has not used."""
        await self._give_back([slice_])

    async def _give_back(self, slices: Sequence[BudgetSlice]) -> None:
        try:
            async with asyncio.timeout(RETURN_S):
                await asyncio.gather(
                    *(self._return(slice_) for slice_ in slices if slice_.remaining > 0)
                )
        except (RouterError, TimeoutError) as exc:  # the leases expire
            log.warning(events.BUDGET_UNAVAILABLE, cause=str(exc) or "no answer")

    async def _return(self, slice_: BudgetSlice) -> None:
        rest, slice_.remaining = slice_.remaining, 0
        # the next grant begins another lease
        lease_id, slice_.lease_ends = self._name(slice_.number), 0.0
        # where another one has begun, the lease was carried into it
        window = find_window(slice_.budget.window, self._clock())
        await self._documents.change(
            slice_.budget, window, lambda record: return_lease(record, lease_id, rest)
        )

    def _name(self, number: int) -> str:
        return f"{self._table.life}.{number}"


def _undo_lease(one: BudgetSlice, moved: int) -> None:
    """Undo `_begin_lease`: nothing was stored, and the next try begins the lease again."""
    if moved:
        one.remaining += moved
        one.number, one.lease_ends = one.number - 1, 0.0
