"""One round of the relay: claim, publish, mark, all in one transaction of the database.

    broker      publish page 1 │ publish page 2         │ publish page 3         │
    database    find page 2    │ mark page 1, find 3    │ mark page 2, find 4    │ …  commit
    here        make 2 ready   │ make 3 ready           │ make 4 ready           │

A crash anywhere before the commit publishes at most one round again, under the same ids, so the stream drops them within its
duplicate window. What the broker did not take is not marked and has spent nothing; what it refused for the event's own sake
is counted, waits and is parked at last; the rest of its aggregate waits with it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct, field

from router.crashpoints import crashpoint
from router.errors import Poison
from router.mailbox.entities import OutboxEvent
from router.mailbox.outbox.message import Publishing
from router.mailbox.outbox.nats_publisher import Away, Fate, Letter, NatsJetStreamPublisher, Refused
from router.mailbox.outbox.page import Row, Unreadable
from router.mailbox.outbox.repository import PostgresOutboxAdapter
from router.outcome import Receipt

Ready = tuple[OutboxEvent, Letter]
Told = tuple[OutboxEvent, Fate]


class Report(Struct):
    """What a round came to."""

    found: int = 0
    published: int = 0
    duplicates: int = 0
    failed: int = 0
    parked: int = 0
    newest: int = 0  # the last sequence that was given
    kinds: Counter[str] = field(default_factory=Counter)  # published, by event_type: EVT-047-001 as a figure
    away: str | None = None  # why the broker took no more


class Round:
    """One round, in one transaction; `most` rows, page by page."""

    def __init__(
        self,
        outbox: PostgresOutboxAdapter,
        publisher: NatsJetStreamPublisher,
        publishing: Publishing,
        *,
        stream_created: str,
        most: int,
    ) -> None:
        self._outbox = outbox
        self._publisher = publisher
        self._publishing = publishing
        self._stream_created = stream_created
        self._most = most
        self._parked: set[tuple[str, str]] = set()  # aggregates whose next events are not even made ready
        self._refused: set[tuple[str, str]] = set()  # aggregates whose next events are not sent in this round
        self.report = Report()

    async def run(self) -> Report:
        """Publish what there is. Raises DatabaseUnavailable or DatabaseRefused; the broker being away is in the report."""
        page, told = await self._find(), list[Told]()
        while page:
            crashpoint("outbox_claimed")
            sent = [pair for pair in page if pair[1].order not in self._refused]
            fates, page = await asyncio.gather(self._publisher.store_in_order([letter for _, letter in sent]), self._mark_and_find(told))
            crashpoint("outbox_stored")
            self._note(sent, fates)
            told = [(event, fate) for (event, _), fate in zip(sent, fates, strict=True)]
            if self.report.away is not None:
                break
        await self._mark(told)
        if told:
            crashpoint("outbox_marked")
        return self.report

    async def _mark_and_find(self, told: Sequence[Told]) -> Sequence[Ready]:
        """What is done while the broker stores."""
        await self._mark(told)
        return await self._find()

    async def _find(self) -> Sequence[Ready]:
        """The next page, ready to be sent: none means that no row is left, or that the round has seen enough of them."""
        while self.report.found < self._most and (rows := await self._outbox.find_page()):
            if page := await self._made_ready(rows):
                return page
        return ()

    async def _made_ready(self, rows: Sequence[Row]) -> Sequence[Ready]:
        """An event that can never be sent is parked, and holds its aggregate."""
        page: list[Ready] = []
        for row in rows:
            self.report.found += 1
            order = (row.aggregate_type, row.aggregate_id)
            if order in self._parked:
                continue
            try:
                page.append(self._ready(row, order))
            except Poison as exc:
                self._parked.add(order)
                await self._fail(row, str(exc), is_hopeless=True)
        return page

    def _ready(self, row: Row, order: tuple[str, str]) -> Ready:
        """Raises Poison."""
        if isinstance(row, Unreadable):
            raise Poison(row.cause)
        return row, Letter(self._publishing.effect_of(row), order)

    def _note(self, sent: Sequence[Ready], fates: Sequence[Fate]) -> None:
        """What must be known before the next events are sent."""
        for (_, letter), fate in zip(sent, fates, strict=True):
            if isinstance(fate, Away):
                self.report.away = fate.cause
            elif not isinstance(fate, Receipt):
                self._refused.add(letter.order)

    async def _mark(self, told: Sequence[Told]) -> None:
        done = [(event, fate) for event, fate in told if isinstance(fate, Receipt)]
        if done:
            receipts = [receipt for _, receipt in done]
            await self._outbox.mark_all_published(receipts, self._stream_created)
            self._count([event for event, _ in done], receipts)
        for event, fate in told:
            if isinstance(fate, Refused):
                await self._fail(event, fate.cause)

    def _count(self, events: Sequence[OutboxEvent], receipts: Sequence[Receipt]) -> None:
        report = self.report
        report.published += len(events)
        report.kinds.update(event.event_type for event in events)
        report.duplicates += sum(receipt.is_duplicate for receipt in receipts)
        report.newest = max(report.newest, *(receipt.sequence for receipt in receipts))

    async def _fail(self, event: Row, cause: str, *, is_hopeless: bool = False) -> None:
        self.report.failed += 1
        self.report.parked += await self._outbox.increment_attempts(event.id, cause, is_hopeless=is_hopeless)
