"""What is settled of budgets, by budget and window, as their buckets say it now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from router.budgets.model import Budget, BudgetError, find_window
from router.budgets.model.spent_record import (
    SETTLEMENT_KEY,
    SettlementRecord,
    SpentRecord,
    build_spent_key,
    find_created,
    read_settlement_record,
    read_spent_record,
)
from router.budgets.store import read_stored_budget
from router.core import ids
from router.core.errors import Poison
from router.delivery.kv.documents import DocumentBucket
from router.delivery.kv.entries import BucketEntry
from router.delivery.wire.api import JetStream


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
    entry = await documents.get(SETTLEMENT_KEY)
    settlement = _read_settlement(entry)
    stored = await DocumentBucket(jetstream, budgets).read_all()
    entries = await documents.read_all()
    return [one for budget in stored.values() for one in _list_sums(budget, entries, settlement)]


def _read_settlement(entry: BucketEntry | None) -> SettlementRecord | None:
    try:
        return read_settlement_record(entry.value) if entry is not None else None
    except Poison:
        return None


def _list_sums(
    stored: BucketEntry, entries: Mapping[str, BucketEntry], settlement: SettlementRecord | None
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
            and (one := _read_sum(budget, key, entry, settlement)) is not None
        ):
            yield one


def _read_sum(
    budget: Budget, key: str, entry: BucketEntry, settlement: SettlementRecord | None
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
        complete=_find_complete(record, settlement),
        created=find_created(record.timeline),
        is_mixed=record.is_mixed,
    )


def _find_complete(record: SpentRecord, settlement: SettlementRecord | None) -> int:
    """The sequence up to which no event is left out. That of the settlement counts only where both
    are of one timeline.
    """
    if settlement is None or settlement.timeline != record.timeline:
        return record.through
    return max(record.through, settlement.through)
