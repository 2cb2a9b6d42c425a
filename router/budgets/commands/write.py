"""`router budget put`, `delete`: a budget holds in every router within a second."""

from __future__ import annotations

from typing import Annotated

import typer

from router.budgets.commands.store import Name, Tenant, open_store, record_write
from router.shell.command_frame import CommandSession, command
from router.shell.missed_events import watch_deletion
from router.shell.option_values import choose_author

Author = Annotated[str | None, typer.Option("--author", help="Who writes it, for the history. Default: your login name.")]


@command()
async def put(
    session: CommandSession,
    tenant: Tenant,
    *,
    amount: Annotated[str, typer.Option("--amount", metavar="AMOUNT", help="Money for each window, as the policies' costs are.")],
    window: Annotated[str, typer.Option("--window", metavar="WINDOW", help="hour, day or month, UTC.")],
    policy: Annotated[str | None, typer.Option("--policy", metavar="POLICY", help="Only decisions by this policy.")] = None,
    provider: Annotated[str | None, typer.Option("--provider", metavar="PROVIDER", help="Only decisions for this provider.")] = None,
    then: Annotated[str, typer.Option("--then", metavar="THEN", help="Without room: deny, or downgrade:POLICY.")] = "deny",
    author: Author = None,
) -> None:
    """Write a budget; one of the same tenant, window, policy and provider is replaced, and what is spent of it stays spent.

    Exit status: 0 it is in force, 1 refused: a value is not legal, or another write came first.

    Example:  router budget put acme --amount 10 --window day --then downgrade:cheap
    """
    from router.budgets.model import parse_budget

    given = {"policy": policy, "provider": provider}
    document = {"amount": amount, "window": window, "then": then, **{name: value for name, value in given.items() if value is not None}}
    budget = parse_budget(document, tenant)
    store = await open_store(session)
    before = await store.find(tenant, budget.budget_id)
    version = await store.put(budget, author=choose_author(author))
    await record_write(session, "budget put", (tenant, budget.budget_id), before, {"version": version, **document})
    fields = {"ok": True, "tenant": tenant, "budget": budget.budget_id, "version": version, **document}
    session.emit_one(fields, f"{tenant} {budget.budget_id} version {version}: in force")


@command()
async def delete(session: CommandSession, tenant: Tenant, name: Name) -> None:
    """Delete a budget: its requests are not limited by it any more. Exit status: 0 it is deleted, 1 there is none.

    Example:  router budget delete acme day
    """
    from router.operate.audit import OperatorWrite

    store = await open_store(session)
    before = await store.find(tenant, name)
    again = OperatorWrite(command="budget delete", target=f"{tenant} {name}", tenant_id=tenant)
    async with watch_deletion(session, store, (tenant, name), again):
        version = await store.delete(tenant, name)
    await record_write(session, "budget delete", (tenant, name), before, None)
    session.emit_one({"ok": True, "tenant": tenant, "budget": name, "version": version, "deleted": True}, f"{tenant} {name}: deleted")
