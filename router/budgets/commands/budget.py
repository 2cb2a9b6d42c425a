"""`router budget`: what tenants may spend in an hour, a day or a month, and what is spent of it.

the budgets of a server     read, with what is spent of them
list, show                  the budgets, and what is spent of them
put, delete                 a budget holds in every router within a second
"""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec import Struct

from router.budgets.model import BudgetWindow, expire_leases, find_window, parse_budget
from router.budgets.model.spent_record import SpentRecord
from router.budgets.spent_documents import SpentDocuments
from router.budgets.store import AuditedBudgets, BudgetStore, StoredBudget, budget_document
from router.contracts.money import format_nanos
from router.core.clock import format_second
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.server_clock import ServerClock
from router.shell.command_frame import CommandSession, command
from router.shell.missed_events import watch_deletion
from router.shell.options import Author, choose_author
from router.shell.view import View, ViewColumn

# -- The budgets of a server, and what is spent of them.

Tenant = Annotated[str, typer.Argument(metavar="TENANT", help="The tenant.")]
Name = Annotated[
    str,
    typer.Argument(
        metavar="BUDGET",
        help="The budget, as `router budget list` names it: day, hour/policy=chat.",
    ),
]


class SpentBudget(Struct, frozen=True):
    """A budget, its present window, and what is spent in it."""

    stored: StoredBudget
    window: BudgetWindow
    spent: SpentRecord


async def open_store(session: CommandSession) -> BudgetStore:
    """Open the store. Raises BrokerUnavailable."""
    return BudgetStore(
        DocumentBucket(await session.open_jetstream(), session.settings.buckets.budgets.name)
    )


async def open_audited_store(session: CommandSession) -> AuditedBudgets:
    """Open the store for writes. Raises BrokerUnavailable."""
    return AuditedBudgets(await open_store(session), session)


async def read_spent(session: CommandSession, stored: StoredBudget) -> SpentBudget:
    """What is spent of it in the window that is now, by the server's clock. Raises
    BrokerUnavailable.
    """
    jetstream = await session.open_jetstream()
    clock = ServerClock(jetstream, f"KV_{session.settings.buckets.budgets.name}")
    await clock.read()
    window = find_window(stored.budget.window, clock())
    document = await SpentDocuments(jetstream, session.settings.buckets.budgets_spent.name).open(
        stored.budget, window
    )
    return SpentBudget(stored, window, expire_leases(document.record, round(clock() * 1000)))


def list_fields(spent_budget: SpentBudget) -> dict[str, object]:
    """Money as text: no float rounds it."""
    budget, spent = spent_budget.stored.budget, spent_budget.spent
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
        "starts_at": format_second(spent_budget.window.starts_s),
        "renews_at": format_second(spent_budget.window.ends_s),
        "version": spent_budget.stored.record.version,
        "author": spent_budget.stored.record.author,
        "time": spent_budget.stored.record.time,
    }


# -- `list` and `show`.

BUDGETS = View(
    *map(ViewColumn, ("tenant", "budget", "amount", "settled", "reserved", "left", "then")),
    ViewColumn("renews", of="renews_at"),
)


@command()
async def list_(
    session: CommandSession,
    *,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
) -> None:
    """List the budgets, and what is settled, reserved and left of each in its present window; with
    --json one object a line.

    Reserved is what routers hold: requests on their way, and the slices that each router takes in
    advance. Exit status 0.

    Example:  router budget list --tenant acme
    """
    rows = [
        list_fields(await read_spent(session, stored_budget))
        for stored_budget in await (await open_store(session)).list(tenant)
    ]
    session.emit(rows, BUDGETS, empty="no budgets")


@command()
async def show(session: CommandSession, tenant: Tenant, name: Name) -> None:
    """Show one budget and what is spent of it. Exit status: 0 shown, 1 there is none.

    Example:  router budget show acme day/policy=chat
    """
    fields = list_fields(
        await read_spent(session, await (await open_store(session)).get(tenant, name))
    )
    session.emit_one(fields)


# -- `put` and `delete`.


@command()
async def put(
    session: CommandSession,
    tenant: Tenant,
    *,
    amount: Annotated[
        str,
        typer.Option(
            "--amount", metavar="AMOUNT", help="Money for each window, as the policies' costs are."
        ),
    ],
    window: Annotated[
        str, typer.Option("--window", metavar="WINDOW", help="hour, day or month, UTC.")
    ],
    policy: Annotated[
        str | None,
        typer.Option("--policy", metavar="POLICY", help="Only decisions by this policy."),
    ] = None,
    provider: Annotated[
        str | None,
        typer.Option("--provider", metavar="PROVIDER", help="Only decisions for this provider."),
    ] = None,
    then: Annotated[
        str, typer.Option("--then", metavar="THEN", help="Without room: deny, or downgrade:POLICY.")
    ] = "deny",
    author: Author = None,
) -> None:
    """Write a budget; one of the same tenant, window, policy and provider is replaced, and what is
    spent of it stays spent.

    Exit status: 0 it is in force, 1 refused: a value is not legal, or another write came first.

    Example:  router budget put acme --amount 10 --window day --then downgrade:cheap
    """
    given = {"policy": policy, "provider": provider}
    document = {
        "amount": amount,
        "window": window,
        "then": then,
        **{name: value for name, value in given.items() if value is not None},
    }
    budget = parse_budget(document, tenant)
    budgets = await open_audited_store(session)
    version = await budgets.put(budget, document, author=choose_author(author))
    fields = {
        "ok": True,
        "tenant": tenant,
        "budget": budget.budget_id,
        "version": version,
        **document,
    }
    session.emit_one(fields, f"{tenant} {budget.budget_id} version {version}: in force")


@command()
async def delete(session: CommandSession, tenant: Tenant, name: Name) -> None:
    """Delete a budget: its requests are not limited by it any more. Exit status: 0 it is deleted, 1
    there is none.

    Example:  router budget delete acme day
    """
    budgets = await open_audited_store(session)
    async with watch_deletion(session, budgets, tenant, name):
        version = await budgets.delete(tenant, name)
    session.emit_one(
        {"ok": True, "tenant": tenant, "budget": name, "version": version, "deleted": True},
        f"{tenant} {name}: deleted",
    )
