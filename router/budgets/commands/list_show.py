"""`router budget list`, `show`: the budgets, and what is spent of them."""

from __future__ import annotations

from typing import Annotated

import typer

from router.budgets.commands.store import Name, SpentBudget, Tenant, list_fields, open_store, read_spent
from router.shell.command_frame import CommandSession, command
from router.shell.output import build_grid, open_console

COLUMNS = ("tenant", "budget", "amount", "settled", "reserved", "left", "then", "renews")


@command()
async def list_(session: CommandSession, *, tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None) -> None:
    """List the budgets, and what is settled, reserved and left of each in its present window; with --json one object a line.

    Reserved is what routers hold: requests on their way, and the slices that each router takes in advance. Exit status 0.

    Example:  router budget list --tenant acme
    """
    found = [await read_spent(session, one) for one in await (await open_store(session)).list(tenant)]
    session.emit(found, COLUMNS, _build_row, list_fields, empty="no budgets")


@command()
async def show(session: CommandSession, tenant: Tenant, name: Name) -> None:
    """Show one budget and what is spent of it. Exit status: 0 shown, 1 there is none.

    Example:  router budget show acme day/policy=chat
    """
    fields = list_fields(await read_spent(session, await (await open_store(session)).get(tenant, name)))
    session.emit_one(fields, lambda: open_console().print(build_grid((one.replace("_", " "), fields[one]) for one in fields)))


def _build_row(one: SpentBudget) -> tuple[object, ...]:
    fields = list_fields(one)
    return tuple(fields[name] for name in ("tenant", "budget", "amount", "settled", "reserved", "left", "then", "renews_at"))
