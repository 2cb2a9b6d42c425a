"""Finds the usage events of an assignment, a request or an identity in their stream, with what they
were adjusted by.

No index leads there: the whole stream is read once, and a message is decoded only where its bytes
have the id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import orjson
from msgspec import Struct
from msgspec.structs import replace

from router.budgets.model.reservation import RESERVATION_HEADER
from router.contracts.usage import (
    ADJUSTED_SUBJECT,
    UsageCost,
    UsageEvent,
    identity,
    read_usage_cost,
    read_usage_event,
)
from router.core.errors import BrokerRefused
from router.delivery.consume.stream_reader import open_reader
from router.delivery.wire.api import STREAM_NOT_FOUND, JetStream, StoredMessage

PAGE = 1_000
MAX_BILLS = 1_000  # of one search: one request has a few

OnProgress = Callable[[int, int], None]  # messages read, of how many


class UsageReference(Struct, frozen=True, kw_only=True):
    """What is looked for: one of the ids is there."""

    tenant_id: str
    assignment_id: str | None = None
    request_id: str | None = None
    event_id: str | None = None

    @property
    def name(self) -> str:
        """For people: `assignment a-1`."""
        if self.event_id is not None:
            return f"event {self.event_id}"
        return (
            f"assignment {self.assignment_id}"
            if self.assignment_id is not None
            else f"request {self.request_id}"
        )

    def may_be_in(self, data: bytes) -> bool:
        """A quick look at the bytes of a message."""
        if self.event_id is not None:  # an event without one in its body has a derived identity
            return self.event_id.encode() in data or b'"event_id"' not in data
        return orjson.dumps(self.assignment_id or self.request_id) in data

    def is_of(self, event: UsageEvent) -> bool:
        """Whether the event, or the one that it adjusts, is meant."""
        if event.tenant_id != self.tenant_id:
            return False
        if self.event_id is not None:
            return self.event_id in (identity(event), event.adjusts)
        return self.assignment_id in (None, event.assignment_id) and self.request_id in (
            None,
            event.request_id,
        )


class FoundBill(Struct, frozen=True):
    """One event, its header, and its adjustments so far, each by its identity. Money is nanos."""

    event: UsageEvent
    reservation: str | None
    nanos: int
    adjustments: Mapping[str, int] = {}

    def count_billed(self, *, without: str) -> int:
        """What stands on the bill of it but for one adjustment. A marked event is on none."""
        adjusted = sum(nanos for name, nanos in self.adjustments.items() if name != without)
        return adjusted + (self.nanos if self.event.is_correlated else 0)


class FoundAdjustment(Struct, frozen=True):
    """An adjustment that stands: when it was stored (the server's text)."""

    event: UsageEvent
    stored_at: str


async def find_bills(
    jetstream: JetStream,
    stream: str,
    reference: UsageReference,
    on_progress: OnProgress = lambda *_: None,
) -> list[FoundBill]:
    """The events, oldest first, each identity once. Raises BrokerUnavailable, BrokerRefused."""
    search, done = _Search(reference), 0
    async with open_reader(jetstream, stream) as reader:
        async for page in reader.read_all(PAGE):
            for stored in page:
                search.add(stored)
            done += len(page)
            on_progress(done, reader.total)
    return search.list_bills()


async def find_adjustment(
    jetstream: JetStream, stream: str, event_id: str
) -> FoundAdjustment | None:
    """The adjustment of this identity, if it stands. There are few: their subject is read. Raises
    BrokerUnavailable, BrokerRefused.
    """
    try:
        async with open_reader(jetstream, stream, subject=ADJUSTED_SUBJECT) as reader:
            async for page in reader.read_all(PAGE):
                for stored in page:
                    if (
                        event_id.encode() in stored.data
                        and (adjustment := read_adjustment(stored))
                        and adjustment.event.event_id == event_id
                    ):
                        return adjustment
    except BrokerRefused as exc:
        if exc.err_code != STREAM_NOT_FOUND:
            raise
    return None


def read_adjustment(stored: StoredMessage) -> FoundAdjustment | None:
    """None for a message that is none."""
    event = read_usage_event(stored.data)
    return (
        FoundAdjustment(event, stored.time)
        if event is not None and event.adjustment is not None
        else None
    )


class _Search:
    """What was found so far."""

    def __init__(self, reference: UsageReference) -> None:
        self._reference = reference
        self._bills: dict[str, FoundBill] = {}
        self._adjustments: dict[str, dict[str, int]] = {}  # of each event

    def add(self, stored: StoredMessage) -> None:
        if not self._reference.may_be_in(stored.data):
            return
        event, cost = read_usage_event(stored.data), read_usage_cost(stored.data)
        if event is None or cost is None or not self._reference.is_of(event):
            return
        if event.adjustment is None:
            self._add_bill(event, cost, stored.headers.get(RESERVATION_HEADER))
        elif event.adjusts is not None:
            self._adjustments.setdefault(event.adjusts, {}).setdefault(cost.event_id, cost.nanos)

    def _add_bill(self, event: UsageEvent, cost: UsageCost, reservation: str | None) -> None:
        if len(self._bills) < MAX_BILLS:
            self._bills.setdefault(cost.event_id, FoundBill(event, reservation, cost.nanos))

    def list_bills(self) -> list[FoundBill]:
        return [
            replace(bill, adjustments=self._adjustments.get(event_id, {}))
            for event_id, bill in self._bills.items()
        ]
