"""The budgets of a server for the commands of `router budget`, and what is spent of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

if TYPE_CHECKING:
    from router.budgets.model import BudgetWindow
    from router.budgets.model.spent_record import SpentRecord
    from router.budgets.store import BudgetStore, StoredBudget
    from router.operate.audit.audit_event import Values
    from router.shell.session import CommandSession

Tenant = Annotated[str, typer.Argument(metavar="TENANT", help="The tenant.")]
Name = Annotated[str, typer.Argument(metavar="BUDGET", help="The budget, as `router budget list` names it: day, hour/policy=chat.")]


class SpentBudget(Struct, frozen=True):
    """A budget, its present window, and what is spent in it."""

    stored: StoredBudget
    window: BudgetWindow
    spent: SpentRecord


async def open_store(session: CommandSession) -> BudgetStore:
    """Open the store. Raises BrokerUnavailable."""
    from router.budgets.store import BudgetStore
    from router.delivery.kv.documents import DocumentBucket

    return BudgetStore(DocumentBucket(await session.open_jetstream(), session.settings.buckets.budgets.name))


async def record_write(
    session: CommandSession, command: str, name: tuple[str, str], before: StoredBudget | None, after: Values | None
) -> None:
    """Leave the audit event of a write that is done."""
    from router.budgets.store import budget_document
    from router.operate.audit import OperatorWrite

    was = {"version": before.record.version, **budget_document(before.budget)} if before is not None else None
    await session.record(OperatorWrite(command=command, target=" ".join(name), tenant_id=name[0], before=was, after=after))


async def read_spent(session: CommandSession, stored: StoredBudget) -> SpentBudget:
    """What is spent of it in the window that is now, by the server's clock. Raises BrokerUnavailable."""
    from router.budgets.model import expire_leases, find_window
    from router.budgets.spent_documents import SpentDocuments
    from router.delivery.wire.server_clock import ServerClock

    jetstream = await session.open_jetstream()
    clock = ServerClock(jetstream, f"KV_{session.settings.buckets.budgets.name}")
    await clock.read()
    window = find_window(stored.budget.window, clock())
    document = await SpentDocuments(jetstream, session.settings.buckets.budgets_spent.name).open(stored.budget, window)
    return SpentBudget(stored, window, expire_leases(document.record, round(clock() * 1000)))


def list_fields(one: SpentBudget) -> dict[str, object]:
    """Money as text: no float rounds it."""
    from router.budgets.store import budget_document
    from router.contracts.money import format_nanos

    budget, spent = one.stored.budget, one.spent
    left = max(0, budget.amount - spent.settled - spent.held)
    return {
        "tenant": budget.tenant_id,
        "budget": budget.budget_id,
        **budget_document(budget),
        "settled": format_nanos(spent.settled),
        "reserved": format_nanos(spent.held),
        "left": format_nanos(left),
        "events": spent.events,
        "adjusted": format_nanos(spent.adjusted),
        "adjustments": spent.adjustments,
        "is_counted": spent.is_counted,
        "starts_at": _format_second(one.window.starts_s),
        "renews_at": _format_second(one.window.ends_s),
        "version": one.stored.record.version,
        "author": one.stored.record.author,
        "time": one.stored.record.time,
    }


def _format_second(at_s: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")
