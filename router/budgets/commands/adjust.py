"""`router budget adjust`: what is settled of one budget is corrected; and how an adjustment is
booked, which `router usage adjust` does for a bill.

read_asked    what is asked for, checked
conclude      books it, leaves its audit event, and says what stands now
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal
from secrets import token_hex
from typing import Annotated

import typer

from router.budgets.adjustments import (
    DAY_MS,
    AdjustmentRefused,
    Asked,
    Correction,
    book,
    correct_budget,
    find_standing,
    list_counting,
)
from router.budgets.commands.budget import Name, Tenant, open_store
from router.budgets.usage_search import FoundAdjustment
from router.contracts.money import format_nanos, parse_amount
from router.contracts.usage import MAX_REASON
from router.core import ids
from router.core.clock import format_day, now_ms, read_instant
from router.core.crashpoints import crashpoint
from router.delivery.wire.server_clock import ServerClock
from router.lake.commands.ingest import make_bounds
from router.operate.audit import OperatorWrite
from router.shell.command_frame import CommandSession, command
from router.shell.missed_events import is_audited

Amount = Annotated[
    str,
    typer.Option(
        "--amount",
        metavar="AMOUNT",
        help="What is added: -12.50 takes it off. At most nine decimal places.",
    ),
]
Reason = Annotated[
    str,
    typer.Option(
        "--reason", metavar="TEXT", help="Why; it stands in the event. At most 512 characters."
    ),
]
CommandId = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="ID",
        help="The same again books nothing more. Default: a random one, which is printed.",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be booked, and book nothing.")
]
Currency = Annotated[
    str | None, typer.Option("--currency", metavar="CODE", help="Refuse, unless costs are in it.")
]


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

    No bill changes: `router usage adjust` corrects bills, and budgets with them. Routers settle it
    within a second. The command may be killed at any moment: run it again with the same --id, and
    it books once.

    Exit status: 0 booked, or it stands already; 1 refused: there is no such budget, or --id was
    used for another adjustment.

    Example:  router budget adjust acme month --amount -5 --reason "test run, ticket 82"
    """
    check_currency(session, currency)
    asked = read_asked(session, tenant, amount, reason, command_id)
    budget = (await (await open_store(session)).get(tenant, name)).budget
    clock = ServerClock(await session.open_jetstream(), session.settings.streams.usage.name)
    await clock.read()
    correction = correct_budget(budget, asked, round(clock() * 1000))
    await conclude(
        session,
        "budget adjust",
        correction,
        asked,
        is_repeated=command_id is not None,
        is_rehearsal=dry_run,
    )


# -- The booking of an adjustment, of a budget or of a bill.


def check_currency(session: CommandSession, currency: str | None) -> None:
    """Raises BadParameter where the operator thinks in another one."""
    costs = session.settings.usage.currency
    if currency not in (None, costs):
        raise typer.BadParameter(f"costs are in {costs} (usage.currency)", param_hint="--currency")


def read_asked(
    session: CommandSession, tenant: str, amount: str, reason: str, command_id: str | None
) -> Asked:
    """What is asked for, checked. Raises BadParameter."""
    if not ids.is_scoped(tenant):
        raise typer.BadParameter("is no tenant id", param_hint="--tenant")
    if command_id is not None and not ids.is_scoped(command_id):
        raise typer.BadParameter(
            "should be 1..128 of A-Z a-z 0-9 _ . : - without . or _ in front", param_hint="--id"
        )
    return Asked(
        tenant_id=tenant,
        amount=_read_amount(amount, session.settings.results.max_cost),
        reason=_read_reason(reason),
        command_id=command_id or token_hex(8),
    )


def _read_amount(text: str, most: float) -> Decimal:
    try:
        amount = parse_amount(text)
    except ValueError as exc:
        raise typer.BadParameter(str(exc), param_hint="--amount") from None
    if not amount or abs(amount) > most:
        raise typer.BadParameter(
            f"should be from {-most:g} to {most:g} (results.max_cost), and not 0",
            param_hint="--amount",
        )
    return amount


def _read_reason(text: str) -> str:
    reason = " ".join(text.split())
    if not 0 < len(reason) <= MAX_REASON or not reason.isprintable():
        raise typer.BadParameter(
            f"should have 1 to {MAX_REASON} printable characters", param_hint="--reason"
        )
    return reason


async def conclude(
    session: CommandSession,
    command: str,
    correction: Correction,
    asked: Asked,
    *,
    is_repeated: bool,
    is_rehearsal: bool,
) -> None:
    """Book it, leave its audit event, and say what stands now; of a rehearsal, what would."""
    _check_age(session, correction)
    jetstream, stream = await session.open_jetstream(), session.settings.streams.usage.name
    if is_rehearsal:
        standing = await find_standing(jetstream, stream, correction) if is_repeated else None
    else:
        # before anything is booked: a command that is killed is run again with it
        if not is_repeated:
            print(f"to run this again: --id {asked.command_id}", file=sys.stderr)
        standing = await book(jetstream, stream, correction, is_repeated=is_repeated)
        crashpoint("adjustment_stored")
        if standing is None or not await _is_audited(session, correction, standing):
            await _record_adjustment(session, command, correction, asked)
    budgets = await _list_counting_budgets(session, correction)
    fields = _list_adjustment_fields(
        session, correction, asked, budgets, standing, is_rehearsal=is_rehearsal
    )
    session.emit_one(fields, lambda: _print_adjustment(fields, budgets, is_rehearsal=is_rehearsal))


def _check_age(session: CommandSession, correction: Correction) -> None:
    """Raises AdjustmentRefused where the tables would put it aside: they take no event whose time
    is so long ago.
    """
    most_ms = make_bounds(session.settings).max_age_ms - DAY_MS  # it may wait a day
    if now_ms() - correction.event.timestamp > most_ms:
        raise AdjustmentRefused(
            f"what is corrected is older than {most_ms // DAY_MS} days: correct a later --period"
        )


async def _is_audited(
    session: CommandSession, correction: Correction, standing: FoundAdjustment
) -> bool:
    """Whether the event of its write is there, too: a command that was killed between the two has
    left none.
    """
    event, since = correction.event, read_instant(standing.stored_at)
    return await is_audited(
        session,
        since,
        event.tenant_id,
        lambda audited: (audited.after or {}).get("event_id") == event.event_id,
    )


async def _record_adjustment(
    session: CommandSession, command: str, correction: Correction, asked: Asked
) -> None:
    event = correction.event
    after = {
        "event_id": event.event_id,
        "id": asked.command_id,
        "amount": format_nanos(correction.nanos),
        "adjusts": event.adjusts,
    }
    before = {"billed": format_nanos(correction.before)} if correction.before is not None else None
    target = f"{event.tenant_id} {_describe_correction(correction)}"
    after = {name: value for name, value in after.items() if value is not None}
    await session.record(
        OperatorWrite(
            command=command,
            target=target,
            tenant_id=event.tenant_id,
            before=before,
            after=after,
            note=event.reason,
        )
    )


def _describe_correction(correction: Correction) -> str:
    """What it corrects, for people."""
    event = correction.event
    if event.budget is not None:
        return event.budget
    if correction.period is not None:
        return f"{correction.period.name} {event.provider_id}"
    return (
        f"assignment {event.assignment_id}"
        if event.assignment_id is not None
        else f"request {event.request_id}"
    )


async def _list_counting_budgets(session: CommandSession, correction: Correction) -> list[str]:
    stored = await (await open_store(session)).list(correction.event.tenant_id)
    return list_counting([stored_budget.budget for stored_budget in stored], correction)


def _list_adjustment_fields(
    session: CommandSession,
    correction: Correction,
    asked: Asked,
    budgets: Sequence[str],
    standing: FoundAdjustment | None,
    *,
    is_rehearsal: bool,
) -> Mapping[str, object]:
    """Money as text: no float rounds it."""
    event, before = correction.event, correction.before
    fields = {
        "ok": True,
        "booked": not is_rehearsal and standing is None,
        "stands_since": standing.stored_at if standing is not None else None,
        "dry_run": is_rehearsal or None,
        "event_id": event.event_id,
        "id": asked.command_id,
        "tenant": event.tenant_id,
        "amount": format_nanos(correction.nanos),
        "currency": session.settings.usage.currency,
        "adjustment": event.adjustment,
        "corrects": _describe_correction(correction),
        "adjusts": event.adjusts,
        "provider": event.provider_id if event.budget is None else None,
        "day": format_day(event.timestamp) if event.budget is None else None,
        "billed_before": format_nanos(before) if before is not None else None,
        "billed_after": format_nanos(before + correction.nanos) if before is not None else None,
        "budgets": budgets,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _print_adjustment(
    fields: Mapping[str, object], budgets: Sequence[str], *, is_rehearsal: bool
) -> None:
    says = "would be booked" if is_rehearsal else "booked"
    if "stands_since" in fields:
        says = f"stands already, since {fields['stands_since']}: nothing more {says}"
    print(f"{fields['event_id']}: {fields['amount']} {fields['currency']} {says}")
    bill = (
        f", bill of {fields['day']}, or of the next open day where that is sealed"
        if "day" in fields
        else ", no bill"
    )
    print(f"tenant {fields['tenant']}, {fields['corrects']}{bill}")
    if "billed_after" in fields:
        print(f"billed {fields['billed_before']} before, {fields['billed_after']} then")
    print(f"counts in {', '.join(budgets)}" if budgets else "counts in no budget")
    print(f"the same command with --id {fields['id']} books nothing more")
