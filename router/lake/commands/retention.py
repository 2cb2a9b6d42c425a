"""`router usage seal`, `erase`, `retention`: what is closed, and what leaves the tables.

seal          close a period, list the closed ones, verify that they still read the same
erase         take a tenant's rows out of every table
retention     drop events of old days from bronze and silver
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import to_builtins

from router.config import Settings
from router.core.errors import Misconfigured
from router.lake.commands.command import WAREHOUSE, WarehouseAt, open_warehouse, warehouse_command
from router.lake.commands.ingest import make_bounds
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, skip_settings
from router.shell.options import confirm
from router.shell.output import build_table, open_console
from router.shell.view import View, ViewColumn

if TYPE_CHECKING:
    from router.lake.jobs.erase import EraseResult
    from router.lake.jobs.retention import RetentionResult

# -- `router usage retention`.

MOST_DAYS = 36_500
_DAYS = re.compile(r"([0-9]{1,5})d", re.ASCII)

Keep = Annotated[
    str,
    typer.Option(
        "--keep", metavar="DAYS", help="How long events stay, as 400d: from their own time."
    ),
]
Unsealed = Annotated[
    bool,
    typer.Option(
        "--unsealed", help="Also days that are not sealed: they cannot be made again afterwards."
    ),
]
RetentionDryRun = Annotated[bool, typer.Option("--dry-run", help="Only tell.")]


@warehouse_command()
def retention(
    session: CommandSession,
    *,
    keep: Keep,
    unsealed: Unsealed = False,
    dry_run: RetentionDryRun = False,
    warehouse: WarehouseAt = WAREHOUSE,
) -> None:
    """Drop events older than --keep, whole days, from bronze and silver, also beside a running
    ingest. Gold stays, so reports do.

    Only sealed days are dropped, unless --unsealed. Their files are deleted an hour later, by
    `router usage vacuum --older-than 1`.

    Example:  router usage retention --keep 400d --dry-run
    """
    kept = _read_days(keep, session.settings)
    at = open_warehouse(warehouse)
    from router.lake.jobs.retention import choose_first_day, drop_old_days

    before = choose_first_day(timedelta(days=kept))
    done = drop_old_days(at, before, has_unsealed=unsealed, dry_run=dry_run)
    gone_after = None if done.gone_after is None else done.gone_after.isoformat()
    names = ("days", "unsealed", "messages", "resealed", "deleted")
    fields = {
        "before": str(before),
        **{name: getattr(done, name) for name in names},
        "gone_after": gone_after,
        "dry_run": dry_run,
    }
    session.emit_one(fields, lambda: _print_dropped(done, dry_run=dry_run))


def _read_days(text: str, settings: Settings) -> int:
    """Raises Misconfigured. What the stream can still bring, or hold, must be known to silver, or
    it would count twice.
    """
    match = _DAYS.fullmatch(text)
    least = (
        timedelta(milliseconds=make_bounds(settings).max_age_ms + settings.streams.usage.max_age_ms)
        // timedelta(days=1)
        + 1
    )
    if match is None or not least <= int(match[1]) <= MOST_DAYS:
        raise Misconfigured(
            "--keep",
            f"{text!r}: from {least}d, for so long an event may come again, to {MOST_DAYS}d",
        )
    return int(match[1])


def _print_dropped(done: RetentionResult, *, dry_run: bool) -> None:
    verb = "would be dropped" if dry_run else "dropped"
    span = f", {done.days[0]} to {done.days[-1]}" if done.days else ""
    print(
        f"{len(done.days)} days {verb}{span}: {done.messages} messages and what was made "
        "of them, but for gold"
    )
    if done.unsealed:
        print(
            f"{len(done.unsealed)} days are as old and not sealed, from {done.unsealed[0]} "
            "on: seal them, or add --unsealed"
        )
    if done.gone_after is not None:
        print(
            "their files are on the disk until `router usage vacuum --older-than 1` runs "
            f"after {done.gone_after:%Y-%m-%d %H:%M UTC}"
        )


# -- `router usage seal`.

SEALS = View(
    ViewColumn("from", of="first_day"),
    ViewColumn("to", of="last_day"),
    *map(ViewColumn, ("sequence", "cut", "rows")),
    ViewColumn("hash", tell=lambda text: text[:16]),
    ViewColumn("reads_the_same", of="holds", tell={True: "ok", False: "fail"}.get),
)

FirstDay = Annotated[
    datetime | None,
    typer.Option("--from", metavar="DAY", formats=["%Y-%m-%d"], help="The first day, UTC."),
]
LastDay = Annotated[
    datetime | None,
    typer.Option(
        "--to", metavar="DAY", formats=["%Y-%m-%d"], help="The last day. Default: the first."
    ),
]
Verify = Annotated[
    bool, typer.Option("--verify", help="Read every sealed period again and compare its hash.")
]


@warehouse_command(skip_settings)
def seal(
    session: CommandSession,
    first: FirstDay = None,
    last: LastDay = None,
    verify: Verify = False,
    warehouse: WarehouseAt = WAREHOUSE,
) -> int:
    """Close the days from --from to --to; without them, list the closed periods.

    A later event of a closed day becomes a correction in the day on which it arrives. Exit status:
    1 if --verify finds a difference.

    Example:  router usage seal --from 2026-10-01 --to 2026-10-31
    """
    if first is None and last is not None:
        raise typer.BadParameter("--to goes with --from")
    at = open_warehouse(warehouse)
    from router.lake.jobs import seal as job

    seals = at.seals() if first is None else [job.seal(at, first.date(), (last or first).date())]
    held = [
        (stored_seal, job.is_unchanged(at, stored_seal) if verify else None)
        for stored_seal in seals
    ]
    fields = [
        {**to_builtins(stored_seal), **({} if holds is None else {"holds": holds})}
        for stored_seal, holds in held
    ]
    session.emit(fields, SEALS, empty="no period is sealed")
    return exit_codes.NO if any(holds is False for _, holds in held) else exit_codes.OK


# -- `router usage erase`.

Tenant = Annotated[str, typer.Option("--tenant", metavar="ID", help="Whose rows.")]
Before = Annotated[
    datetime | None,
    typer.Option(
        "--before",
        metavar="DAY",
        formats=["%Y-%m-%d"],
        help="Only events of earlier days, UTC. Default: all.",
    ),
]
ErasureDryRun = Annotated[bool, typer.Option("--dry-run", help="Only count.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


@warehouse_command(skip_settings)
def erase(
    session: CommandSession,
    *,
    tenant: Tenant,
    before: Before = None,
    dry_run: ErasureDryRun = False,
    yes: Yes = False,
    warehouse: WarehouseAt = WAREHOUSE,
) -> int:
    """Erase a tenant's rows from every table, also beside a running ingest. Sealed periods keep
    every other row.

    Files that held the rows are deleted an hour later, by `router usage vacuum --older-than 1` or
    by this command again: a running ingest may read them until then. The stream keeps its messages
    until its own retention ends.

    Exit status: 0 no row is left, 1 there are rows: not confirmed, --dry-run, or new ones came
    meanwhile.

    Example:  router usage erase --tenant acme --before 2026-01-01 --dry-run
    """
    at = open_warehouse(warehouse)
    from router.lake.jobs.erase import erase as erase_rows

    limit = None if before is None else before.date()
    if not dry_run and not yes:
        count = erase_rows(at, tenant, before=limit, dry_run=True).rows["bronze"]
        if not confirm(f"Erase {count} messages of {tenant}, and what was made of them, for good?"):
            return exit_codes.NO
    done = erase_rows(at, tenant, before=limit, dry_run=dry_run)
    session.emit_one(
        {**_build_erased_fields(done), "dry_run": dry_run},
        lambda: _print_erased(done, dry_run=dry_run),
    )
    return exit_codes.NO if any(done.left.values()) else exit_codes.OK


def _build_erased_fields(done: EraseResult) -> Mapping[str, object]:
    gone_after = None if done.gone_after is None else done.gone_after.isoformat()
    names = ("sequence", "rows", "left", "resealed", "deleted")
    return {**{name: getattr(done, name) for name in names}, "gone_after": gone_after}


def _print_erased(done: EraseResult, *, dry_run: bool) -> None:
    head = ("table", "would go" if dry_run else "erased", "left")
    open_console().print(
        build_table(head, ((table, done.rows[table], done.left.get(table)) for table in done.rows))
    )
    if dry_run:
        return
    if done.resealed:
        print(
            f"{done.resealed} sealed periods are read as of a later cut; `router usage "
            "seal --verify` holds them"
        )
    if done.gone_after is not None:
        until = done.gone_after.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
        print(
            "files that held the rows are on the disk until `router usage vacuum "
            f"--older-than 1` runs after {until}"
        )
    if any(done.left.values()):
        print(
            f"what is left came after sequence {done.sequence} of the stream, while this "
            "ran: run it again"
        )
