"""One batch of the relay: claim, publish, mark, all in one transaction of the database.

    broker      publish page 1 │ publish page 2         │ publish page 3         │
    database    find page 2    │ mark page 1, find 3    │ mark page 2, find 4    │ …  commit
    here        prepare 2      │ prepare 3              │ prepare 4              │

A crash before the commit publishes at most one batch again, under the same ids, so the stream drops
the copies within its duplicate window. A row that the broker could not store is not marked and
spends no attempt. A row that the broker refused counts a failure, waits, and is parked at last; the
rest of its aggregate waits with it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct, field

from router.core.crashpoints import crashpoint
from router.core.errors import Poison
from router.core.outcome import PublishAck
from router.mailbox.entities import OutboxEvent
from router.mailbox.outbox.add import EventEncoder
from router.mailbox.outbox.nats_publisher import (
    NatsJetStreamPublisher,
    OutgoingMessage,
    PublishRefused,
    PublishResult,
    PublishUnavailable,
)
from router.mailbox.outbox.page import Row, UnreadableRow
from router.mailbox.outbox.repository import PostgresOutboxAdapter

PreparedEvent = tuple[OutboxEvent, OutgoingMessage]
EventResult = tuple[OutboxEvent, PublishResult]


class RelayReport(Struct):
    found: int = 0
    published: int = 0
    duplicates: int = 0
    failed: int = 0
    parked: int = 0
    newest: int = 0  # the last stream sequence
    # published, by event_type: EVT-047-001 as a figure
    kinds: Counter[str] = field(default_factory=Counter)
    broker_error: str | None = None  # why the broker stored no more


class RelayBatch:
    """One batch, in one transaction; `most` rows, page by page."""

    def __init__(
        self,
        outbox: PostgresOutboxAdapter,
        publisher: NatsJetStreamPublisher,
        encoder: EventEncoder,
        *,
        stream_created: str,
        most: int,
    ) -> None:
        self._outbox = outbox
        self._publisher = publisher
        self._encoder = encoder
        self._stream_created = stream_created
        self._most = most
        self._parked: set[tuple[str, str]] = set()  # aggregates whose next events are not prepared
        # aggregates whose next events are not sent in this round
        self._refused: set[tuple[str, str]] = set()
        self.report = RelayReport()

    async def run(self) -> RelayReport:
        """Publish what there is. Raises DatabaseUnavailable or DatabaseRefused; the report says
        when the broker is unavailable.
        """
        page, results = await self._find(), list[EventResult]()
        while page:
            crashpoint("outbox_claimed")
            sent = [pair for pair in page if pair[1].order not in self._refused]
            fates, page = await asyncio.gather(
                self._publisher.publish_in_order([message for _, message in sent]),
                self._mark_and_find(results),
            )
            crashpoint("outbox_stored")
            self._note(sent, fates)
            results = [(event, result) for (event, _), result in zip(sent, fates, strict=True)]
            if self.report.broker_error is not None:
                break
        await self._mark(results)
        if results:
            crashpoint("outbox_marked")
        return self.report

    async def _mark_and_find(self, results: Sequence[EventResult]) -> Sequence[PreparedEvent]:
        """Mark the last page and find the next one, while the broker stores the current one."""
        await self._mark(results)
        return await self._find()

    async def _find(self) -> Sequence[PreparedEvent]:
        """Return the next page, ready to publish. An empty one: no row is left, or the batch has
        its number of rows.
        """
        while self.report.found < self._most and (rows := await self._outbox.find_page()):
            if page := await self._prepare_page(rows):
                return page
        return ()

    async def _prepare_page(self, rows: Sequence[Row]) -> Sequence[PreparedEvent]:
        """Park an event that can never be published; it holds back its aggregate."""
        page: list[PreparedEvent] = []
        for row in rows:
            self.report.found += 1
            order = (row.aggregate_type, row.aggregate_id)
            if order in self._parked or order in self._refused:
                continue
            try:
                page.append(self._prepare(row, order))
            except Poison as exc:
                self._parked.add(order)
                await self._fail(row, str(exc), is_hopeless=True)
        return page

    def _prepare(self, row: Row, order: tuple[str, str]) -> PreparedEvent:
        """Raises Poison."""
        if isinstance(row, UnreadableRow):
            raise Poison(row.cause)
        return row, OutgoingMessage(self._encoder.effect_of(row), order)

    def _note(self, sent: Sequence[PreparedEvent], fates: Sequence[PublishResult]) -> None:
        """Record what the next page depends on."""
        for (_, message), result in zip(sent, fates, strict=True):
            if isinstance(result, PublishUnavailable):
                self.report.broker_error = result.cause
            elif not isinstance(result, PublishAck):
                self._refused.add(message.order)

    async def _mark(self, results: Sequence[EventResult]) -> None:
        done = [(event, result) for event, result in results if isinstance(result, PublishAck)]
        if done:
            publish_acks = [publish_ack for _, publish_ack in done]
            await self._outbox.mark_all_published(publish_acks, self._stream_created)
            self._count([event for event, _ in done], publish_acks)
        for event, result in results:
            if isinstance(result, PublishRefused):
                await self._fail(event, result.cause)

    def _count(self, events: Sequence[OutboxEvent], publish_acks: Sequence[PublishAck]) -> None:
        report = self.report
        report.published += len(events)
        report.kinds.update(event.event_type for event in events)
        report.duplicates += sum(publish_ack.is_duplicate for publish_ack in publish_acks)
        report.newest = max(report.newest, *(publish_ack.sequence for publish_ack in publish_acks))

    async def _fail(self, event: Row, cause: str, *, is_hopeless: bool = False) -> None:
        self.report.failed += 1
        self.report.parked += await self._outbox.increment_attempts(
            event.id, cause, is_hopeless=is_hopeless
        )
