"""`router usage adjust`: correct a bill by an event of its own; what it corrects stays."""

from __future__ import annotations

from re import fullmatch
from typing import Annotated

import typer

from router.budgets.adjustments import (
    Asked,
    Correction,
    choose_bill,
    correct_bill,
    correct_period,
    read_period,
)
from router.budgets.commands.adjust import (
    Amount,
    CommandId,
    Currency,
    DryRun,
    Reason,
    check_currency,
    conclude,
    read_asked,
)
from router.budgets.usage_search import UsageReference, find_bills
from router.contracts.usage import IDENTITY_FORM
from router.core import ids
from router.delivery.wire.server_clock import ServerClock
from router.shell.command_frame import CommandSession, command
from router.shell.output import show_progress

Tenant = Annotated[str, typer.Option("--tenant", metavar="ID", help="Whose bill.")]
Assignment = Annotated[
    str | None, typer.Option("--assignment", metavar="ID", help="The bill of this assignment.")
]
Request = Annotated[
    str | None, typer.Option("--request", metavar="ID", help="The bill of this request.")
]
Event = Annotated[
    str | None,
    typer.Option(
        "--event", metavar="ID", help="The bill of this usage event, where a request has several."
    ),
]
PeriodName = Annotated[
    str | None,
    typer.Option("--period", metavar="PERIOD", help="A day or a month, UTC: 2026-11-27, 2026-11."),
]
Provider = Annotated[
    str | None, typer.Option("--provider", metavar="NAME", help="With --period: whose cost it is.")
]
Policy = Annotated[
    str | None,
    typer.Option(
        "--policy", metavar="ID", help="With --period: counted in this policy's budgets, too."
    ),
]


@command()
async def adjust(
    session: CommandSession,
    *,
    tenant: Tenant,
    amount: Amount,
    reason: Reason,
    assignment: Assignment = None,
    request: Request = None,
    event: Event = None,
    period: PeriodName = None,
    provider: Provider = None,
    policy: Policy = None,
    command_id: CommandId = None,
    currency: Currency = None,
    dry_run: DryRun = False,
) -> None:
    """Correct a bill: book the difference as a usage event of its own. What it corrects stays.

    Budgets, tables, reports and exports count it. It is on the bill of the day of what it corrects,
    or of the next open day where that is sealed; budgets count it in their present windows. For an
    assignment or a request the usage stream is searched. The command may be killed at any moment:
    run it again with the same --id, and it books once.

    Exit status: 0 booked, or it stands already; 1 refused: there is no such bill, there are
    several, or --id was used for another one.

    Example:  router usage adjust --tenant acme --assignment asg-1 --amount -0.25 --reason "timed out, ticket 81" --dry-run
    """
    check_currency(session, currency)
    asked = read_asked(session, tenant, amount, reason, command_id)
    if sum(option is not None for option in (assignment, request, event, period)) != 1:
        raise typer.BadParameter(
            "say what is corrected: one of --assignment, --request, --event, --period"
        )
    if period is not None:
        correction = await _correct_period(session, asked, period, provider, policy)
    elif provider is not None or policy is not None:
        raise typer.BadParameter(
            "--provider and --policy are for --period: an event says both itself"
        )
    else:
        correction = await _correct_bill(session, asked, assignment, request, event)
    await conclude(
        session,
        "usage adjust",
        correction,
        asked,
        is_repeated=command_id is not None,
        is_rehearsal=dry_run,
    )


async def _correct_bill(
    session: CommandSession,
    asked: Asked,
    assignment: str | None,
    request: str | None,
    event: str | None,
) -> Correction:
    reference = UsageReference(
        tenant_id=asked.tenant_id, assignment_id=assignment, request_id=request, event_id=event
    )
    _check(reference)
    jetstream, stream = await session.open_jetstream(), session.settings.streams.usage.name
    with show_progress("search", is_quiet=session.as_json) as advance:
        bills = await find_bills(jetstream, stream, reference, advance)
    return correct_bill(choose_bill(bills, reference), asked)


def _check(reference: UsageReference) -> None:
    if reference.event_id is not None and fullmatch(IDENTITY_FORM, reference.event_id) is None:
        raise typer.BadParameter("should be like usage: and 32 hex digits", param_hint="--event")
    for option, given in (
        ("--assignment", reference.assignment_id),
        ("--request", reference.request_id),
    ):
        if given is not None and not ids.is_opaque(given):
            raise typer.BadParameter(
                "should be 1..128 printable ASCII characters without a space", param_hint=option
            )


async def _correct_period(
    session: CommandSession, asked: Asked, period: str, provider: str | None, policy: str | None
) -> Correction:
    if provider is None or not ids.is_scoped(provider):
        raise typer.BadParameter("--period takes --provider, a provider's name: whose cost it is")
    if policy is not None and not ids.is_scoped(policy):
        raise typer.BadParameter("is no policy id", param_hint="--policy")
    try:
        chosen = read_period(period)
    except ValueError as exc:
        raise typer.BadParameter(str(exc), param_hint="--period") from None
    clock = ServerClock(await session.open_jetstream(), session.settings.streams.usage.name)
    await clock.read()
    return correct_period(chosen, asked, provider, policy, round(clock() * 1000))
