"""The documents of what was spent: one for each budget and window, changed by compare-and-set alone
(docs/reference/budgets.md#slices).
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from router.budgets.model import Budget, BudgetWindow, find_window, open_next_window
from router.budgets.model.spent_record import SpentRecord, build_spent_key, read_spent_record
from router.contracts.stored_record import record_bytes
from router.core.errors import BrokerUnavailable, Conflict, Poison
from router.delivery.kv.documents import DocumentBucket
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
        return await self.bucket.put(
            document.key, record_bytes(record), revision=document.revision or None
        )

    async def change(
        self,
        budget: Budget,
        window: BudgetWindow,
        change: Callable[[SpentRecord], SpentRecord | None],
    ) -> SpentRecord:
        """Read, change and write, until no other writer comes between; what then holds. A change to
        None writes nothing.
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
