"""Books usage: adds the cost of each usage event to the documents of its budgets, once
(docs/reference/budgets.md#settlement).

    every 250 ms   is another instance settling? its record is written again and again ──> wait
                   windows that are not counted yet ──> read from their start
                   new events ──> documents, each with the sequence it is counted through ──> the settlement's own record

Whatever dies when: an event at or below a document's sequence is in it. Two that settle at once do
no harm; one stops at its next write. A usage stream that was made anew is noticed by its reader, or
by its info within ten seconds; `booked_usage` says where it goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec.structs import replace

from router.budgets.booked_usage import EventMemory, UsagePlace, find_place, is_end_of_reservation
from router.budgets.model import Budget, BudgetTable, BudgetWindow, book_costs, find_window
from router.budgets.model.reservation import RESERVATION_HEADER, read_reservation
from router.budgets.model.spent_record import (
    BOOKING_KEY,
    BookedCost,
    BookingRecord,
    SpentRecord,
    is_counted,
    is_spending,
    make_booked_cost,
)
from router.budgets.notices import find_notices, forget_notices, mark_notices, raise_notices
from router.budgets.spent_documents import SpentDocuments, read_booking
from router.budgets.store import FollowedBudgets
from router.contracts.usage import UsageCost, read_usage_cost
from router.core.clock import Clock, steady
from router.core.errors import BrokerUnavailable, Conflict, RouterError
from router.delivery.consume.stream_reader import StreamReader, open_reader
from router.delivery.kv.lease import LeaseWatch
from router.delivery.wire.api import JetStream, StoredMessage, nanos
from router.delivery.wire.server_clock import ServerClock
from router.operate.alerts import Alerts
from router.process.observability import LogRateLimit, events, logs

log = logs.logger(__name__)

LOOK_S = 0.25
LEASE_S = 3.0  # another instance settles when the record was not written for so long
RENEW_S = 1.0
CHECK_S = 60.0  # the documents are looked at so often: another version may have written one
BATCH = 500
REMEMBERED = 100_000  # events before the last one, read when an instance begins

BudgetInWindow = tuple[Budget, BudgetWindow]


class BudgetBooking:
    """One instance of all does it. `stream`: of usage events."""

    def __init__(  # noqa: PLR0917 - `Budgets` joins them
        self,
        jetstream: JetStream,
        stream: str,
        followed: FollowedBudgets,
        table: BudgetTable,
        documents: SpentDocuments,
        server_clock: ServerClock,
        alerts: Alerts,
        *,
        clock: Clock = steady,
    ) -> None:
        self._jetstream = jetstream
        self._stream = stream
        self._followed = followed
        self._table = table
        self._documents = documents
        self._server_clock = server_clock
        self._alerts = alerts
        self._clock = clock
        self._watch = LeaseWatch(LEASE_S, clock)
        self._revision = 0  # of the settlement's record, while this instance settles
        self._place = UsagePlace()
        self._read_to = 0  # the reader's last sequence
        self._renewed_at = 0.0
        self._reader: StreamReader | None = None
        self._memory = EventMemory()
        self._counted: set[tuple[str, str, int, int]] = set()
        self._checked_at = 0.0
        self._lines = LogRateLimit(every_s=60.0)

    async def run(self) -> None:
        """A child of the tree: until cancelled."""
        try:
            while True:
                await asyncio.sleep(LOOK_S)
                if self._table.tenants or self._reader is not None:
                    await self._try_round()
        finally:
            await self._stop()

    async def _try_round(self) -> None:
        try:
            if self._reader is None and not await self._begin():
                return
            await self._book_round()
        except RouterError as exc:
            await self._stop()
            if not isinstance(exc, Conflict) and self._lines.allow("settlement"):
                log.warning(events.BUDGET_UNAVAILABLE, cause=str(exc))

    async def _begin(self) -> bool:
        """Settle from now on, unless another instance does."""
        entry = await self._documents.bucket.get(BOOKING_KEY)
        self._watch.on_revision(entry.revision if entry is not None else 0)
        if entry is not None and not self._watch.is_over:
            return False
        record = read_booking(entry)
        # else the first round would compare the stream with the one before
        await self._server_clock.read(max_age=0.0)
        self._place = await find_place(self._jetstream, self._stream, record)
        if record is not None and record.timeline != self._place.timeline:
            log.warning(
                events.USAGE_REPLACED,
                stream=self._stream,
                created=self._place.created,
                through=self._place.through,
            )
        await self._renew(entry.revision if entry is not None else None)
        await self._followed.reload()  # a budget that was put a moment ago misses no event
        await self._open_reader()
        return True

    async def _open_reader(self) -> None:
        """Read from REMEMBERED events before the last settled one, so that a repeated result is
        known.
        """
        self._memory, self._counted, self._read_to = EventMemory(), set(), 0
        self._reader = StreamReader(
            self._jetstream, self._stream, max(1, self._place.through - REMEMBERED)
        )
        await self._reader.open()

    async def _stop(self) -> None:
        reader, self._reader, self._revision = self._reader, None, 0
        self._watch = LeaseWatch(LEASE_S, self._clock)
        if reader is not None:
            await reader.close()

    async def _renew(self, revision: int | None) -> None:
        """Raises Conflict: another instance settles."""
        place = self._place
        data = msgspec.json.encode(
            BookingRecord(self._table.life, place.timeline, place.through, place.stored_ns)
        )
        self._revision = await self._documents.bucket.put(BOOKING_KEY, data, revision=revision)
        self._renewed_at = self._clock()

    async def _book_round(self) -> None:
        await self._server_clock.read()
        self._require_same_stream(is_same=self._server_clock.stream_created == self._place.created)
        if self._clock() - self._checked_at > CHECK_S:
            self._counted, self._checked_at = set(), self._clock()
        for budget in self._list_budgets():
            await self._count(budget, find_window(budget.window, self._server_clock()))
        while self._reader is not None and (batch := await self._reader.read(BATCH)):
            # a restored stream has the reader's consumer, as it was
            self._require_same_stream(is_same=batch[0].sequence > self._read_to)
            self._read_to, before = batch[-1].sequence, self._place
            await self._book(batch)
            if self._place != before or self._clock() - self._renewed_at > RENEW_S:
                await self._renew(self._revision)
        if self._clock() - self._renewed_at > RENEW_S:
            await self._renew(self._revision)

    def _require_same_stream(self, *, is_same: bool) -> None:
        """Raises BrokerUnavailable, so that the settlement begins again, in the stream that is
        there now.
        """
        if not is_same:
            raise BrokerUnavailable(f"stream {self._stream} was made anew")

    def _list_budgets(self) -> list[Budget]:
        return [slice_.budget for slice_ in self._table.slices.values()]

    async def _book(self, batch: Sequence[StoredMessage]) -> None:
        """Add these events to the documents."""
        costs_by_window: dict[BudgetInWindow, list[BookedCost]] = {}
        timeline = self._place.timeline
        for stored in batch:
            is_new = stored.sequence > self._place.through
            cost = read_usage_cost(stored.data)
            # What spends nothing is not remembered: a flood of it would push out what does.
            if (
                cost is not None
                and is_spending(cost)
                and self._memory.is_first(cost.event_id, stored.sequence)
            ):
                is_end = is_end_of_reservation(cost, self._memory, stored.sequence)
                if is_new:
                    self._add(costs_by_window, cost, stored, is_end=is_end)
        for (budget, window), costs in costs_by_window.items():
            await self._count(budget, window)
            await self._change(
                budget,
                window,
                lambda record, costs=costs: book_costs(_require_counted(record), timeline, costs),  # type: ignore[misc]
            )
        self._place = self._place.move_to(batch[-1])

    def _add(
        self,
        costs_by_window: dict[BudgetInWindow, list[BookedCost]],
        cost: UsageCost,
        stored: StoredMessage,
        *,
        is_end: bool,
    ) -> None:
        budgets = self._table.tenants.get(cost.tenant_id)
        if budgets is None:
            return
        reservation, stored_ns = (
            read_reservation(stored.headers.get(RESERVATION_HEADER)),
            nanos(stored.time),
        )
        ended = reservation if is_end else None
        for budget in [slice_.budget for slice_ in budgets.slices]:
            if is_counted(budget, cost, reservation):
                key = budget, find_window(budget.window, stored_ns / 1e9)
                costs_by_window.setdefault(key, []).append(
                    make_booked_cost(budget, cost, stored.sequence, stored_ns, ended=ended)
                )

    async def _change(
        self, budget: Budget, window: BudgetWindow, change: Callable[[SpentRecord], SpentRecord]
    ) -> None:
        """Change the document, with the notices that are due then."""
        notices: tuple[int, ...] = ()

        def change_and_mark(record: SpentRecord) -> SpentRecord:
            nonlocal notices
            changed = forget_notices(record, change(record), budget.amount)
            notices = find_notices(changed, budget.amount)
            return mark_notices(changed, notices)

        record = await self._documents.change(budget, window, change_and_mark)
        raise_notices(self._alerts, budget, window, record, notices)

    async def _count(self, budget: Budget, window: BudgetWindow) -> None:
        """Make sure that the document holds every event of the window up to `through`: a budget may
        be younger than its window.
        """
        key = (budget.tenant_id, budget.budget_id, budget.created_ms, window.starts_s)
        if key in self._counted:
            return
        document = await self._documents.open(budget, window)
        if not document.record.is_counted:
            sum_ = await self._sum(budget, window)
            await self._change(budget, window, lambda record: record if record.is_counted else sum_)
        elif not document.revision:
            await self._change(budget, window, lambda record: record)
        self._counted = {
            counted
            for counted in self._counted
            if counted[:3] != key[:3] or counted[3] >= window.starts_s
        } | {key}

    async def _sum(self, budget: Budget, window: BudgetWindow) -> SpentRecord:
        """What the events of the window up to `through` cost."""
        memory, record, place = EventMemory(), SpentRecord(is_counted=True), self._place
        since = datetime.fromtimestamp(window.starts_s, UTC)
        async with open_reader(self._jetstream, self._stream, since=since) as reader:
            while batch := await reader.read(BATCH):
                read = (
                    _read_cost(budget, window, memory, message)
                    for message in batch
                    if message.sequence <= place.through
                )
                costs = [cost for cost in read if cost is not None]
                record = book_costs(record, place.timeline, costs)
                if batch[-1].sequence >= place.through:
                    break
        return replace(
            record, timeline=place.timeline, through=place.through, stored_ns=place.stored_ns
        )


def _read_cost(
    budget: Budget, window: BudgetWindow, memory: EventMemory, stored: StoredMessage
) -> BookedCost | None:
    """What the event costs in this budget; None where it is not of it, or not of the window, or
    came before.
    """
    stored_ns = nanos(stored.time)
    cost = read_usage_cost(stored.data) if stored_ns / 1e9 < window.ends_s else None
    if cost is None or cost.tenant_id != budget.tenant_id or not is_spending(cost):
        return None
    is_first = memory.is_first(cost.event_id, stored.sequence)
    reservation = read_reservation(stored.headers.get(RESERVATION_HEADER))
    return (
        make_booked_cost(budget, cost, stored.sequence, stored_ns)
        if is_first and is_counted(budget, cost, reservation)
        else None
    )


def _require_counted(record: SpentRecord) -> SpentRecord:
    """Raises BrokerUnavailable where the document cannot be read any more: the settlement begins
    again, and counts it anew.
    """
    if not record.is_counted:
        raise BrokerUnavailable("a document of what was spent is not counted")
    return record
