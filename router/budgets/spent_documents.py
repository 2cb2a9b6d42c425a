"""The documents of what was spent: one for each budget and window, changed by compare-and-set alone
(docs/reference/budgets.md#slices). And what is settled of budgets, as the documents say it now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from router.budgets.model import Budget, BudgetError, BudgetWindow, find_window, open_next_window
from router.budgets.model.spent_record import (
    BOOKING_KEY,
    BookingRecord,
    SpentRecord,
    build_spent_key,
    find_created,
    read_booking_record,
    read_spent_record,
)
from router.budgets.store import read_stored_budget
from router.contracts.stored_record import record_bytes
from router.core import ids
from router.core.errors import BrokerUnavailable, Conflict, Poison
from router.delivery.kv.documents import DocumentBucket
from router.delivery.kv.entries import BucketEntry
from router.delivery.wire.api import JetStream

TRIES = 50  # of one change, against other writers


class SpentDocument(Struct, frozen=True):
    """`revision` 0: it is not stored."""

    key: str
    record: SpentRecord
    revision: int


class SpentDocuments:
    """One bucket. Every method may raise BrokerUnavailable."""

    def __init__(self, jetstream: JetStream, bucket: str) -> None:
        self.bucket = DocumentBucket(jetstream, bucket)

    async def read(self, budget: Budget, window: BudgetWindow) -> SpentDocument:
        """An empty record where there is none, or one that cannot be read: the settlement counts it
        again.
        """
        key = build_spent_key(
            budget.tenant_id, budget.budget_id, budget.created_ms, window.starts_s
        )
        entry = await self.bucket.get(key)
        if entry is None:
            return SpentDocument(key, SpentRecord(), 0)
        try:
            return SpentDocument(key, read_spent_record(entry.value), entry.revision)
        except Poison:
            return SpentDocument(key, SpentRecord(), entry.revision)

    async def open(self, budget: Budget, window: BudgetWindow) -> SpentDocument:
        """The document of the window; where there is none, a new window goes on where the one
        before it ended.
        """
        document = await self.read(budget, window)
        if document.revision:
            return document
        before = await self.read(budget, find_window(budget.window, window.starts_s - 1))
        if not before.record.is_counted:
            return document
        return SpentDocument(
            document.key, open_next_window(before.record, window.starts_s * 1000), document.revision
        )

    async def write(self, document: SpentDocument, record: SpentRecord) -> int:
        """The new revision. Raises Conflict."""
        # None: there must be no document
        return await self.bucket.put(
            document.key, record_bytes(record), revision=document.revision or None
        )

    async def change(
        self,
        budget: Budget,
        window: BudgetWindow,
        change: Callable[[SpentRecord], SpentRecord | None],
    ) -> SpentRecord:
        """Read, change and write, until no other writer comes between; what then holds. Of two
        instances that take a slice at the same moment one conflicts, and takes from what the other
        one left. A change to None writes nothing.
        """
        for _ in range(TRIES):
            document = await self.open(budget, window)
            record = change(document.record)
            if record is None:
                return document.record
            try:
                await self.write(document, record)
            except Conflict:
                continue
            return record
        raise BrokerUnavailable(f"bucket {self.bucket.bucket}: {document.key} is written too often")


# -- What is settled of budgets, by budget and window, as their buckets say it now.


class BudgetSum(Struct, frozen=True, kw_only=True):
    """One budget in one window: nanos of so many events, the last of them at sequence `through`,
    and none is left out up to `complete`.

    Times are seconds since the epoch. Sequences are of the usage stream that was made at `created`;
    `is_mixed`: events of another one, or of an end that it has lost, are among them.
    """

    tenant_id: str
    budget_id: str
    policy_id: str | None
    provider_id: str | None
    starts_s: int
    ends_s: int
    settled: int
    events: int
    through: int
    complete: int
    created: str
    is_mixed: bool = False

    @property
    def name(self) -> str:
        return f"{self.tenant_id} {self.budget_id} from {self.starts_s}"


async def read_budget_sums(jetstream: JetStream, budgets: str, spent: str) -> list[BudgetSum]:
    """Every window of the budgets that there are. Raises BrokerUnavailable."""
    documents = DocumentBucket(jetstream, spent)
    # first: what it names is in every document that is read after it
    entry = await documents.get(BOOKING_KEY)
    booking = read_booking(entry)
    stored = await DocumentBucket(jetstream, budgets).read_all()
    entries = await documents.read_all()
    return [
        budget_sum
        for budget in stored.values()
        for budget_sum in _list_sums(budget, entries, booking)
    ]


def read_booking(entry: BucketEntry | None) -> BookingRecord | None:
    """The settlement's own record; None: there is none that can be read."""
    try:
        return read_booking_record(entry.value) if entry is not None else None
    except Poison:
        return None


def _list_sums(
    stored: BucketEntry, entries: Mapping[str, BucketEntry], booking: BookingRecord | None
) -> Iterator[BudgetSum]:
    try:
        budget = read_stored_budget(stored).budget
    except (Poison, BudgetError):
        return
    prefix = build_spent_key(budget.tenant_id, budget.budget_id, budget.created_ms, 0).removesuffix(
        "0"
    )
    for key, entry in entries.items():
        if (
            key.startswith(prefix)
            and (budget_sum := _read_sum(budget, key, entry, booking)) is not None
        ):
            yield budget_sum


def _read_sum(
    budget: Budget, key: str, entry: BucketEntry, booking: BookingRecord | None
) -> BudgetSum | None:
    parts = ids.parts_of(key)
    try:
        record = read_spent_record(entry.value)
    except Poison:
        return None
    if not record.is_counted or parts is None or not parts[-1].isdecimal():
        return None
    window = find_window(budget.window, int(parts[-1]))
    return BudgetSum(
        tenant_id=budget.tenant_id,
        budget_id=budget.budget_id,
        policy_id=budget.policy_id,
        provider_id=budget.provider_id,
        starts_s=window.starts_s,
        ends_s=window.ends_s,
        settled=record.settled,
        events=record.events,
        through=record.through,
        complete=_find_complete(record, booking),
        created=find_created(record.timeline),
        is_mixed=record.is_mixed,
    )


def _find_complete(record: SpentRecord, booking: BookingRecord | None) -> int:
    """The sequence up to which no event is left out. That of the settlement counts only where both
    are of one timeline.
    """
    if booking is None or booking.timeline != record.timeline:
        return record.through
    return max(record.through, booking.through)
