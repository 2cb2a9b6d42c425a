"""`router outbox`: publish what a service committed; list what is left and what cannot be
published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from router.mailbox.commands.mailbox import (
    emit_backlog,
    load_context_settings,
    load_database_settings,
    load_relay_settings,
)
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.output import announce_event

if TYPE_CHECKING:
    from router.mailbox.outbox.failed_rows import FailedRow

COLUMNS = ("id", "aggregate", "event", "occurred", "failures", "behind", "state", "error")


@command(load_relay_settings, has_json=False)
async def relay(session: CommandSession) -> int:
    """Publish until SIGTERM or Ctrl-C; then finish the current transaction and end with 0. A second
    signal ends at once: 130.

    Several may run: one works and the others wait, or they share the work
    (mailbox.relay.partitions). Prints one JSON line, outbox.ready, when it works; logs go to
    standard error.

    Example:  ROUTER_MAILBOX__DSN=postgresql://localhost/sea router outbox relay --context sea
    """
    settings = session.settings
    from router.mailbox.relay_process import RelayService

    facts = {"context": settings.mailbox.context, "stream": settings.mailbox.events_stream}
    return await session.serve(
        RelayService(settings).run(lambda http: announce_event("outbox.ready", http=http, **facts))
    )


@command(load_context_settings)
async def backlog(session: CommandSession) -> None:
    """Count the events that are not published, and say when the oldest occurred (QRY-050).

    Example:  router outbox backlog --json
    """
    settings = session.settings
    from router.mailbox.backlog import get_outbox_backlog
    from router.mailbox.relay_process import tables_of

    async with tables_of(settings) as tables:
        emit_backlog(session, await get_outbox_backlog(tables), "to publish")


@command(load_relay_settings)
async def publish(
    session: CommandSession,
    *,
    event: Annotated[UUID, typer.Argument(metavar="ID", help="Of the row.")],
) -> int:
    """Publish one event now, without a relay, also if it is parked (CMD-050). It keeps the order of
    its aggregate.

    Exit status: 0 it is in the stream, 1 it is not, and why.

    Example:  router outbox publish 7c9e6679-7425-40de-944b-e07fc1f90ae7 --context sea
    """
    settings = session.settings
    from router.mailbox.outbox.one_event import PUBLISHED_BEFORE
    from router.mailbox.relay_process import publish_event

    done = await publish_event(settings, event)
    words = done.cause or f"published, at sequence {done.sequence} of the stream"
    session.emit_one({"id": str(event), "sequence": done.sequence, "cause": done.cause}, words)
    return exit_codes.OK if done.cause in (None, PUBLISHED_BEFORE) else exit_codes.NO


@command(load_database_settings)
async def list_parked(
    session: CommandSession,
    *,
    waiting: Annotated[
        bool, typer.Option("--waiting", help="Also those that are tried again automatically.")
    ] = False,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1)] = 100,
) -> int:
    """List the events that cannot be published, why, and how many of their aggregate wait behind
    them.

    Exit status: 0 there are none, 1 there are some.

    Example:  router outbox parked
    """
    settings = session.settings
    from router.mailbox.outbox.failed_rows import list_failed_rows
    from router.mailbox.relay_process import tables_of

    async with tables_of(settings) as tables:
        found = await list_failed_rows(tables, limit=limit, is_also_waiting=waiting)
    session.emit(found, COLUMNS, _build_row, empty="nothing is parked")
    return exit_codes.NO if found else exit_codes.OK


@command(load_database_settings)
async def requeue(
    session: CommandSession,
    events: Annotated[
        list[UUID] | None,
        typer.Argument(metavar="[ID]…", help="Their ids in `router outbox parked`."),
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Every parked event.")] = False,
) -> int:
    """Publish parked events again, once the cause of their failure is fixed. Exit status: 0 done, 1
    there were none.

    Example:  router outbox requeue --all
    """
    if bool(events) == every:
        raise typer.BadParameter("say which events: their ids, or --all")
    settings = session.settings
    from router.mailbox.outbox.failed_rows import requeue as put_back
    from router.mailbox.relay_process import tables_of

    async with tables_of(settings) as tables:
        count = await put_back(tables, events)
    session.emit_one(
        {"requeued": count}, f"{count} requeued" if count else "none of them is parked"
    )
    return exit_codes.OK if count else exit_codes.NO


def _build_row(one: FailedRow) -> tuple[object, ...]:
    state = "parked" if one.parked_at is not None else f"again at {one.next_attempt_at:%H:%M:%S}"
    aggregate = f"{one.aggregate_type} {one.aggregate_id}"
    return (
        one.id,
        aggregate,
        one.event_type,
        f"{one.occurred_at:%Y-%m-%d %H:%M:%S}",
        one.failures,
        one.behind,
        state,
        one.publish_error,
    )
