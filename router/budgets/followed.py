"""Keeps the budgets of this process equal to their bucket."""

from __future__ import annotations

from collections.abc import Sequence

from router.budgets.model import Budget, BudgetTable
from router.budgets.store import read_stored_budget
from router.delivery.kv.entries import BucketEntry
from router.delivery.kv.followed_bucket import FollowedBucket
from router.delivery.wire.api import JetStream
from router.delivery.wire.shared_info import SharedInfo
from router.process.observability import events


class FollowedBudgets(FollowedBucket[Budget]):
    """A budget that cannot be read leaves the last good one in force."""

    optional = "budgets"

    def __init__(
        self, jetstream: JetStream, bucket: str, table: BudgetTable, infos: SharedInfo | None = None
    ) -> None:
        super().__init__(jetstream, bucket, events.BUDGET_BROKEN, infos)
        self._table = table

    async def reload(self) -> None:
        """What the bucket holds now: a budget that was put a moment ago is not missed. Raises
        BrokerUnavailable.
        """
        self.on_change(await self.documents.read_all())

    def read(self, entry: BucketEntry) -> Budget:
        return read_stored_budget(entry).budget

    def install(self, values: Sequence[Budget]) -> None:
        self._table.replace(values)
