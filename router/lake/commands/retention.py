"""`router usage retention`: drop old event days from bronze and silver."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from router.core.errors import Misconfigured
from router.lake.commands.command import warehouse_command
from router.lake.commands.options import WAREHOUSE, WarehouseAt, open_warehouse
from router.lake.commands.source import make_bounds
from router.shell.command_frame import CommandSession

if TYPE_CHECKING:
    from router.config import Settings
    from router.lake.jobs.retention import RetentionResult

MOST_DAYS = 36_500
_DAYS = re.compile(r"([0-9]{1,5})d", re.ASCII)

Keep = Annotated[str, typer.Option("--keep", metavar="DAYS", help="How long events stay, as 400d: from their own time.")]
Unsealed = Annotated[bool, typer.Option("--unsealed", help="Also days that are not sealed: they cannot be made again afterwards.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only tell.")]


@warehouse_command()
def retention(
    session: CommandSession, *, keep: Keep, unsealed: Unsealed = False, dry_run: DryRun = False, warehouse: WarehouseAt = WAREHOUSE
) -> None:
    """Drop events older than --keep, whole days, from bronze and silver, also beside a running ingest. Gold stays, so reports do.

    Only sealed days are dropped, unless --unsealed. Their files are deleted an hour later, by `router usage vacuum --older-than 1`.

    Example:  router usage retention --keep 400d --dry-run
    """
    kept = _read_days(keep, session.settings)
    at = open_warehouse(warehouse)
    from router.lake.jobs.retention import choose_first_day, drop_old_days

    before = choose_first_day(timedelta(days=kept))
    done = drop_old_days(at, before, has_unsealed=unsealed, dry_run=dry_run)
    gone_after = None if done.gone_after is None else done.gone_after.isoformat()
    names = ("days", "unsealed", "messages", "resealed", "deleted")
    fields = {"before": str(before), **{name: getattr(done, name) for name in names}, "gone_after": gone_after, "dry_run": dry_run}
    session.emit_one(fields, lambda: _print_result(done, dry_run=dry_run))


def _read_days(text: str, settings: Settings) -> int:
    """Raises Misconfigured. What the stream can still bring, or hold, must be known to silver, or it would count twice."""
    found = _DAYS.fullmatch(text)
    least = timedelta(milliseconds=make_bounds(settings).max_age_ms + settings.streams.usage.max_age_ms) // timedelta(days=1) + 1
    if found is None or not least <= int(found[1]) <= MOST_DAYS:
        raise Misconfigured("--keep", f"{text!r}: from {least}d, for so long an event may come again, to {MOST_DAYS}d")
    return int(found[1])


def _print_result(done: RetentionResult, *, dry_run: bool) -> None:
    verb = "would be dropped" if dry_run else "dropped"
    span = f", {done.days[0]} to {done.days[-1]}" if done.days else ""
    print(f"{len(done.days)} days {verb}{span}: {done.messages} messages and what was made of them, but for gold")
    if done.unsealed:
        print(f"{len(done.unsealed)} days are as old and not sealed, from {done.unsealed[0]} on: seal them, or add --unsealed")
    if done.gone_after is not None:
        print(f"their files are on the disk until `router usage vacuum --older-than 1` runs after {done.gone_after:%Y-%m-%d %H:%M UTC}")
