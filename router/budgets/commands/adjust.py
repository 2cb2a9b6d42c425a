"""`router budget adjust`: correct what is settled of one budget, and no bill."""

from __future__ import annotations

from router.budgets.commands.booking import Amount, CommandId, Currency, DryRun, Reason, check_currency, conclude, read_asked
from router.budgets.commands.store import Name, Tenant, open_store
from router.shell.command_frame import CommandSession, command


@command()
async def adjust(
    session: CommandSession,
    tenant: Tenant,
    name: Name,
    *,
    amount: Amount,
    reason: Reason,
    command_id: CommandId = None,
    currency: Currency = None,
    dry_run: DryRun = False,
) -> None:
    """Correct what is settled of a budget in its present window: -5 makes room for 5 more.

    No bill changes: `router usage adjust` corrects bills, and budgets with them. Routers settle it within a second. The command may be
    killed at any moment: run it again with the same --id, and it books once.

    Exit status: 0 booked, or it stands already; 1 refused: there is no such budget, or --id was used for another adjustment.

    Example:  router budget adjust acme month --amount -5 --reason "test run, ticket 82"
    """
    from router.budgets.adjustments import correct_budget
    from router.delivery.wire.server_clock import ServerClock

    check_currency(session, currency)
    asked = read_asked(session, tenant, amount, reason, command_id)
    budget = (await (await open_store(session)).get(tenant, name)).budget
    clock = ServerClock(await session.open_jetstream(), session.settings.streams.usage.name)
    await clock.read()
    correction = correct_budget(budget, asked, round(clock() * 1000))
    await conclude(session, "budget adjust", correction, asked, is_repeated=command_id is not None, is_rehearsal=dry_run)
