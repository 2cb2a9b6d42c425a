"""What is settled of budgets, by budget and window, as their buckets say it now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from router.contracts.spent_record import SETTLEMENT_KEY, build_spent_key, read_settlement_record, read_spent_record
from router.core import ids
from router.core.errors import Poison
from router.delivery.api import JetStream
from router.delivery.buckets.documents import DocumentBucket
from router.delivery.buckets.entries import BucketEntry
from router.routing.budgets import Budget, BudgetError, find_window
from router.services.budget_store import read_stored_budget


class BudgetSum(Struct, frozen=True, kw_only=True):
    """One budget in one window: nanos of so many events, the last of them at sequence `through`, and none is left out up to `complete`.

    Times are seconds since the epoch.
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

    @property
    def name(self) -> str:
        return f"{self.tenant_id} {self.budget_id} from {self.starts_s}"


async def read_budget_sums(jetstream: JetStream, budgets: str, spent: str) -> list[BudgetSum]:
    """Every window of the budgets that there are. Raises BrokerUnavailable."""
    documents = DocumentBucket(jetstream, spent)
    settlement = await documents.get(SETTLEMENT_KEY)  # first: what it names is in every document that is read after it
    through = _read_through(settlement)
    stored = await DocumentBucket(jetstream, budgets).read_all()
    entries = await documents.read_all()
    return [one for entry in stored.values() for one in _list_sums(entry, entries, through)]


def _read_through(entry: BucketEntry | None) -> int:
    try:
        return read_settlement_record(entry.value).through if entry is not None else 0
    except Poison:
        return 0


def _list_sums(stored: BucketEntry, entries: Mapping[str, BucketEntry], through: int) -> Iterator[BudgetSum]:
    try:
        budget = read_stored_budget(stored).budget
    except (Poison, BudgetError):
        return
    prefix = build_spent_key(budget.tenant_id, budget.budget_id, budget.created_ms, 0).removesuffix("0")
    for key, entry in entries.items():
        if key.startswith(prefix) and (one := _read_sum(budget, key, entry, through)) is not None:
            yield one


def _read_sum(budget: Budget, key: str, entry: BucketEntry, through: int) -> BudgetSum | None:
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
        complete=max(record.through, through),
    )
