"""`router usage held`: costs that workers told far above what was expected, until an operator
accepts or sets them.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Annotated

import typer

from router.budgets.adjustments import (
    HeldCost,
    book_held_cost,
    check_held_amount,
    find_held,
    list_held,
    remove_held,
)
from router.budgets.model.held_cost import derive_held_identity, make_held_adjustment
from router.budgets.usage_search import FoundAdjustment, UsageReference, find_adjustment, find_bills
from router.contracts.usage import MAX_REASON, UsageEvent, identity
from router.core.clock import read_instant
from router.operate.audit.audit_event import OperatorWrite
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.missed_events import is_audited
from router.shell.output import format_time, show_progress
from router.shell.view import View, ViewColumn

MAX_PLACES, MAX_AMOUNT = 9, Decimal("1e9")

Tenant = Annotated[str | None, typer.Option("--tenant", help="Only those of this tenant.")]
EventId = Annotated[
    str, typer.Argument(metavar="EVENT", help="The event's id in `router usage held list`.")
]
Amount = Annotated[
    str | None,
    typer.Option(
        "--amount",
        metavar="AMOUNT",
        help=(
            "What it costs after all; of a correction, the difference to its bill. Default: "
            "what the worker told."
        ),
    ),
]
Reason = Annotated[
    str | None,
    typer.Option(
        "--reason", metavar="TEXT", help="Why; it stands in the adjustment and in the audit event."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be booked.")]


@command()
async def list_(session: CommandSession, *, tenant: Tenant = None) -> None:
    """List the held costs, oldest first: what is booked, and what the worker told. Exit status 0,
    also when there are none.

    Example:  router usage held list --tenant acme
    """
    jetstream, stream = await session.open_jetstream(), session.settings.streams.held.name
    rows = [_list_fields(held_cost) async for held_cost in list_held(jetstream, stream, tenant)]
    session.emit(rows, HELD_COSTS, empty="no cost is held")


@command()
async def accept(
    session: CommandSession,
    event: EventId,
    *,
    amount: Amount = None,
    reason: Reason = None,
    dry_run: DryRun = False,
) -> int:
    """Decide one held cost: an adjustment of its bill is stored, with an audit event, and it is
    held no more.

    The adjustment is what was told, or AMOUNT, less what is booked. The same command again books
    nothing twice.

    What is held may be a correction: the list names the bill that it adjusts. There `cost`,
    `told_cost` and AMOUNT are differences to that bill. So AMOUNT may be below 0: 0.50 was billed,
    it was 0.10 after all: --amount -0.40. It takes off what was billed at most.

    Exit status: 0 it is booked, or stood already; 1 no such cost is held, or AMOUNT takes more off
    than was billed.

    Example:  router usage held accept usage:1f0c… --amount 0.25 --reason "told in cents"
    """
    cost, why = read_amount(amount), read_reason(reason)
    jetstream, stream = await session.open_jetstream(), session.settings.streams.held.name
    held_cost = await find_held(jetstream, stream, event)
    standing = await find_adjustment(
        jetstream, session.settings.streams.usage.name, derive_held_identity(event)
    )
    if held_cost is None:
        return _tell_decided(session, event, standing)
    if standing is not None:
        adjustment = standing.event  # what was decided first counts
    else:
        await _check_amount(session, held_cost.event, cost)
        adjustment = make_held_adjustment(held_cost.event, cost, why)
    is_new = None if standing is None else False
    if not dry_run:
        is_new = await _book(session, held_cost, adjustment, standing)
    verb = {None: "would be booked", True: "booked", False: "it stands already"}[is_new]
    fields = {
        **_list_fields(held_cost),
        "adjustment": adjustment.event_id,
        "amount": adjustment.cost,
        "is_new": is_new,
    }
    session.emit_one(
        fields,
        f"{event}: an adjustment of {adjustment.cost} {session.settings.usage.currency}: {verb}",
    )
    return exit_codes.OK


def _tell_decided(session: CommandSession, event_id: str, standing: FoundAdjustment | None) -> int:
    """It is not held: it was decided before, or never was."""
    if standing is None:
        return exit_codes.refuse(f"no cost of {event_id} is held: `router usage held list`")
    adjustment = standing.event
    fields = {
        "event_id": event_id,
        "adjustment": adjustment.event_id,
        "amount": adjustment.cost,
        "is_new": False,
    }
    session.emit_one(
        fields,
        (
            f"{event_id}: an adjustment of {adjustment.cost} "
            f"{session.settings.usage.currency}: it stands already"
        ),
    )
    return exit_codes.OK


async def _check_amount(session: CommandSession, event: UsageEvent, amount: float | None) -> None:
    """Raises BadParameter for a bill below 0, AdjustmentRefused for an amount that takes more off
    than was billed.
    """
    if amount is None or amount >= event.cost:
        return
    if event.adjusts is None and amount < 0:
        raise typer.BadParameter(
            "--amount: a bill is not below 0; only a correction, which `adjusts` a bill, may be"
        )
    bill = event.adjusts or identity(event)
    jetstream, reference = (
        await session.open_jetstream(),
        UsageReference(tenant_id=event.tenant_id, event_id=bill),
    )
    with show_progress("search", is_quiet=session.as_json) as advance:
        bills = await find_bills(jetstream, session.settings.streams.usage.name, reference, advance)
    check_held_amount(event, amount, bills)


async def _book(
    session: CommandSession,
    held_cost: HeldCost,
    adjustment: UsageEvent,
    standing: FoundAdjustment | None,
) -> bool:
    """The adjustment, the audit event, and only then the notice: a killed command is run again."""
    jetstream = await session.open_jetstream()
    is_new = standing is None and await book_held_cost(jetstream, held_cost, adjustment)
    if standing is None or not await _is_audited(session, standing):
        await _record(session, held_cost, adjustment, is_new=is_new)
    await remove_held(jetstream, session.settings.streams.held.name, held_cost)
    return is_new


async def _is_audited(session: CommandSession, standing: FoundAdjustment) -> bool:
    event, since = standing.event, read_instant(standing.stored_at)
    return await is_audited(
        session,
        since,
        event.tenant_id,
        lambda audited: (audited.after or {}).get("adjustment") == event.event_id,
    )


async def _record(
    session: CommandSession, held_cost: HeldCost, adjustment: UsageEvent, *, is_new: bool
) -> None:
    event = held_cost.event
    write = OperatorWrite(
        command="usage held accept",
        target=held_cost.event_id,
        tenant_id=event.tenant_id,
        before={"cost": event.cost, "told_cost": event.told_cost},
        after={"adjustment": adjustment.event_id, "amount": adjustment.cost, "is_new": is_new},
        note=adjustment.reason,
    )
    await session.record(write)


def read_amount(text: str | None) -> float | None:
    """Raises BadParameter: it is no amount of money."""
    if text is None:
        return None
    try:
        amount = Decimal(text)
    except InvalidOperation:
        raise typer.BadParameter(f"--amount {text[:40]!r} is no number") from None
    if not amount.is_finite():
        raise typer.BadParameter(f"--amount {text[:40]!r} is no number")
    exponent = amount.as_tuple().exponent
    if not isinstance(exponent, int) or not abs(amount) <= MAX_AMOUNT or -exponent > MAX_PLACES:
        raise typer.BadParameter(
            f"--amount {text[:40]!r}: {-MAX_AMOUNT:f} to {MAX_AMOUNT:f}, at most "
            f"{MAX_PLACES} places"
        )
    return float(amount) + 0.0


def read_reason(text: str | None) -> str | None:
    """Raises BadParameter: it is too long."""
    if text is not None and len(text) > MAX_REASON:
        raise typer.BadParameter(f"--reason: at most {MAX_REASON} characters")
    return text


def _list_fields(held_cost: HeldCost) -> Mapping[str, object]:
    event = held_cost.event
    names = (
        "tenant_id",
        "provider_id",
        "assignment_id",
        "request_id",
        "status",
        "cost",
        "told_cost",
        "told_provider_id",
        "adjusts",
    )
    told = {name: value for name in names if (value := getattr(event, name)) is not None}
    return {
        "event_id": held_cost.event_id,
        "seq": held_cost.sequence,
        "stored": held_cost.stored_at,
        **told,
    }


HELD_COSTS = View(
    ViewColumn("event", of="event_id"),
    ViewColumn("stored", tell=format_time),
    ViewColumn("tenant", of="tenant_id"),
    ViewColumn("provider", of="provider_id"),
    ViewColumn("assignment", of=lambda told: told.get("assignment_id") or told.get("request_id")),
    ViewColumn("status"),
    ViewColumn("booked", of="cost"),
    ViewColumn("told", of="told_cost"),
    ViewColumn("adjusts", of=lambda told: told.get("adjusts") or "–"),
)
