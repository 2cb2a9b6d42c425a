"""`router outbox backlog`, `parked`, `requeue`: count what is left, list what failed, and publish failed rows again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from router.cli import exit_codes
from router.cli.mailbox import ContextName, Dsn
from router.cli.options import AsJson, ConfigFile
from router.cli.output import print_json, print_records
from router.cli.session import load_mailbox_settings, run_with

if TYPE_CHECKING:
    from router.config import Settings
    from router.mailbox.outbox.failed_rows import FailedRow

COLUMNS = ("id", "aggregate", "event", "occurred", "failures", "behind", "state", "error")


def backlog(context: ContextName = None, dsn: Dsn = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Count the events that are not published, and say when the oldest occurred (QRY-050).

    Example:  router outbox backlog --json
    """
    run_with(lambda: load_mailbox_settings(dsn, context, None, config), lambda settings: _backlog(settings, as_json))


def list_parked(
    *,
    waiting: Annotated[bool, typer.Option("--waiting", help="Also those that are tried again automatically.")] = False,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1)] = 100,
    dsn: Dsn = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """List the events that cannot be published, why, and how many of their aggregate wait behind them.

    Exit status: 0 there are none, 1 there are some.

    Example:  router outbox parked
    """
    run_with(lambda: load_mailbox_settings(dsn, None, None, config), lambda settings: _list_parked(settings, limit, waiting, as_json))


def requeue(
    events: Annotated[list[UUID] | None, typer.Argument(metavar="[ID]…", help="Their ids in `router outbox parked`.")] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Every parked event.")] = False,
    dsn: Dsn = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Publish parked events again, once the cause of their failure is fixed. Exit status: 0 done, 1 there were none.

    Example:  router outbox requeue --all
    """
    if bool(events) == every:
        raise typer.BadParameter("say which events: their ids, or --all")
    run_with(lambda: load_mailbox_settings(dsn, None, None, config), lambda settings: _requeue(settings, events, as_json))


async def _backlog(settings: Settings, as_json: bool) -> int:
    from router.app.mailbox import tables_of
    from router.mailbox.backlog import get_outbox_backlog

    async with tables_of(settings) as session:
        found = await get_outbox_backlog(session)
    if as_json:
        print_json({"context": settings.mailbox.context, "count": found.count, "oldest_at": found.oldest_at})
    else:
        oldest = f", the oldest of {found.oldest_at:%Y-%m-%d %H:%M:%S} UTC" if found.oldest_at is not None else ""
        print(f"{settings.mailbox.context}: {found.count} to publish{oldest}")
    return exit_codes.OK


async def _list_parked(settings: Settings, limit: int, waiting: bool, as_json: bool) -> int:
    from msgspec import to_builtins

    from router.app.mailbox import tables_of
    from router.mailbox.outbox.failed_rows import list_failed_rows

    async with tables_of(settings) as session:
        found = await list_failed_rows(session, limit=limit, is_also_waiting=waiting)
    print_records(map(to_builtins, found), COLUMNS, map(_row, found), empty="nothing is parked", as_json=as_json)
    return exit_codes.NO if found else exit_codes.OK


async def _requeue(settings: Settings, events: list[UUID] | None, as_json: bool) -> int:
    from router.app.mailbox import tables_of
    from router.mailbox.outbox.failed_rows import requeue as put_back

    async with tables_of(settings) as session:
        count = await put_back(session, events)
    if as_json:
        print_json({"requeued": count})
    else:
        print(f"{count} requeued" if count else "none of them is parked")
    return exit_codes.OK if count else exit_codes.NO


def _row(one: FailedRow) -> tuple[object, ...]:
    state = "parked" if one.parked_at is not None else f"again at {one.next_attempt_at:%H:%M:%S}"
    aggregate = f"{one.aggregate_type} {one.aggregate_id}"
    return (one.id, aggregate, one.event_type, f"{one.occurred_at:%Y-%m-%d %H:%M:%S}", one.failures, one.behind, state, one.publish_error)
