"""The bucket of budgets: each is checked and versioned before it is written. The command line
writes, a router follows the bucket.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec import Struct

from router.budgets.model import Budget, BudgetError, BudgetTable, parse_budget
from router.budgets.model.budget import DENY, DOWNGRADE
from router.budgets.model.reserving import MAX_BUDGETS
from router.contracts.money import format_nanos
from router.contracts.version_record import VersionRecord, read_record
from router.core import ids
from router.core.errors import Poison, RouterError
from router.delivery.kv.entries import BucketEntry
from router.delivery.kv.followed_bucket import FollowedBucket
from router.delivery.kv.versioned_store import MAX_AUTHOR, VersionedStore
from router.delivery.wire.api import JetStream
from router.delivery.wire.shared_info import SharedInfo
from router.operate.audit import AuditedStore
from router.operate.audit.audit_event import Values
from router.process.observability import events

MAX_BUDGET_BYTES = 8 * 1024


class BudgetNotFound(RouterError):
    """The tenant has no such budget."""

    code = "budget_not_found"


class StoredBudget(Struct, frozen=True):
    """A budget in the bucket."""

    budget: Budget
    record: VersionRecord


class BudgetStore(VersionedStore[StoredBudget]):
    """A write may raise BudgetError before it writes. The name of a budget: its tenant, its id
    (`day/policy=chat`).
    """

    kind, not_found = "budget", BudgetNotFound

    def read(self, entry: BucketEntry) -> StoredBudget:
        return read_stored_budget(entry)

    async def put(self, budget: Budget, *, author: str) -> int:
        """Write the budget over the one of its name, if there is one; the version. Its windows go
        on.
        """
        mine = [
            stored
            for stored in await self.list(budget.tenant_id)
            if stored.budget.budget_id != budget.budget_id
        ]
        if len(mine) >= MAX_BUDGETS:
            raise BudgetError(
                f"{budget.tenant_id} has {MAX_BUDGETS} budgets already: delete one first"
            )
        present = await self.find(budget.tenant_id, budget.budget_id)
        created_ms = (
            present.budget.created_ms if present is not None else time.time_ns() // 1_000_000
        )
        replaces = present.record.version if present is not None else 0
        document = {**budget_document(budget), "created_ms": created_ms}
        return await self.write(
            (budget.tenant_id, budget.budget_id),
            document,
            author=author[:MAX_AUTHOR],
            replaces=replaces,
        )

    async def list(self, tenant_id: str | None = None) -> Sequence[StoredBudget]:
        """Every budget, or one tenant's, in the order of their names."""
        chosen = [
            stored
            for stored in await super().list()
            if tenant_id in (None, stored.budget.tenant_id)
        ]
        return sorted(chosen, key=lambda stored: (stored.budget.tenant_id, stored.budget.budget_id))


class AuditedBudgets(AuditedStore[BudgetStore, StoredBudget]):
    """The writes of operators."""

    deletion = "budget delete"
    separator = " "

    def describe(self, document: StoredBudget) -> Values:
        return {"version": document.record.version, **budget_document(document.budget)}

    async def put(self, budget: Budget, given: Values, *, author: str) -> int:
        """Write a budget and return its version. `given`: the budget as the operator wrote it."""
        event = await self.open_event("budget put", (budget.tenant_id, budget.budget_id))
        version = await self.store.put(budget, author=author)
        event.after = {"version": version, **given}
        await self.trail.record(event)
        return version


def budget_document(budget: Budget) -> dict[str, object]:
    """As `parse_budget` reads it, without the time."""
    scope = {"policy": budget.policy_id, "provider": budget.provider_id}
    then = DENY if budget.downgrade_to is None else DOWNGRADE + budget.downgrade_to
    given = {name: value for name, value in scope.items() if value is not None}
    return {"amount": format_nanos(budget.amount), "window": budget.window, **given, "then": then}


def read_stored_budget(entry: BucketEntry) -> StoredBudget:
    """Raises Poison or BudgetError for a value or a key that is no budget's."""
    parts = ids.parts_of(entry.key)
    if parts is None or len(parts) != 2 or len(entry.value) > MAX_BUDGET_BYTES:
        raise Poison("is no budget of a tenant")
    record = read_record(entry.value)
    budget = parse_budget(record.document, parts[0])
    if budget.budget_id != parts[1]:
        raise Poison("is the budget of another key")
    return StoredBudget(budget, record)


# -- Keeps the budgets of this process equal to their bucket.


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
