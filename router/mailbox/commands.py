"""`router mailbox`, `outbox` and `inbox`.

mailbox     the tables of a context's outbox and inbox; and how commands reach them
outbox      publish what a service committed; list what is left and what cannot be published
inbox       handle events of another context's stream, each once; and count those that wait
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from router.config import Settings
from router.core.errors import Misconfigured
from router.mailbox.entities import Backlog
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.import_target import import_function
from router.shell.options import ConfigFile, ContextName, Dsn, NatsUrl
from router.shell.output import announce_event
from router.shell.session import load_settings_of_command
from router.shell.view import View, ViewColumn

if TYPE_CHECKING:
    from router.mailbox.outbox.repository import FailedRow
    from router.mailbox.postgres import Session

# -- `router mailbox`.


def load_with_extra(config: Path | None, given: Mapping[str, object]) -> Settings:
    """Load the settings of a command for one context's database. Raises Misconfigured, also without
    the extra `postgres`.
    """
    for module in ("psycopg", "psycopg_pool", "httpx2"):
        if find_spec(module) is None:
            raise Misconfigured(module, "is not installed: pip install 'beamline-router[postgres]'")
    return load_settings_of_command(config, given).settings


def load_database_settings(dsn: Dsn = None, config: ConfigFile = None) -> Settings:
    return load_with_extra(config, {"mailbox.dsn": dsn})


def load_context_settings(
    context: ContextName = None, dsn: Dsn = None, config: ConfigFile = None
) -> Settings:
    return load_with_extra(config, {"mailbox.dsn": dsn, "mailbox.context": context})


def load_relay_settings(
    context: ContextName = None,
    dsn: Dsn = None,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
) -> Settings:
    return load_with_extra(
        config, {"nats.url": nats_url, "mailbox.dsn": dsn, "mailbox.context": context}
    )


@asynccontextmanager
async def open_tables(session: CommandSession) -> AsyncIterator[Session]:
    """Open a transaction of the context's database. Raises as `tables_of`."""
    settings = session.settings  # first: it says which extra is not installed
    from router.mailbox.relay_process import tables_of

    async with tables_of(settings) as tables:
        yield tables


@command(load_database_settings)
async def migrate(session: CommandSession) -> None:
    """Apply the missing migrations; running it twice does nothing.

    Example:  ROUTER_MAILBOX__DSN=postgresql://localhost/sea router mailbox migrate
    """
    settings = session.settings  # first: it says which extra is not installed
    from router.mailbox import schema
    from router.mailbox.relay_process import database_of

    async with database_of(settings) as database:
        applied = [
            migration.name
            for migration in await schema.migrate(database, settings.mailbox.db_schema)
        ]
    session.emit_one({"applied": applied}, _format_names("applied", applied) or "nothing to apply")


@command(load_database_settings)
async def check(session: CommandSession) -> int:
    """List what `migrate` would apply. Exit status: 0 nothing, 1 something is missing.

    Example:  router mailbox check
    """
    settings = session.settings  # first: it says which extra is not installed
    from router.mailbox import schema
    from router.mailbox.relay_process import database_of

    async with database_of(settings) as database:
        missing = [migration.name for migration in await schema.check(database)]
    session.emit_one(
        {"missing": missing}, _format_names("missing", missing) or "all migrations are applied"
    )
    return exit_codes.NO if missing else exit_codes.OK


def emit_backlog(session: CommandSession, backlog: Backlog, what: str) -> None:
    context = session.settings.mailbox.context
    oldest = (
        f", the oldest of {backlog.oldest_at:%Y-%m-%d %H:%M:%S} UTC"
        if backlog.oldest_at is not None
        else ""
    )
    session.emit_one(
        {"context": context, "count": backlog.count, "oldest_at": backlog.oldest_at},
        f"{context}: {backlog.count} {what}{oldest}",
    )


def _format_names(what: str, names: Sequence[str]) -> str:
    return "\n".join(f"{what} {name}" for name in names)


# -- `router outbox`.


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
async def backlog_of_outbox(session: CommandSession) -> None:
    """Count the events that are not published, and say when the oldest occurred (QRY-050).

    Example:  router outbox backlog --json
    """
    async with open_tables(session) as tables:
        from router.mailbox.backlog import get_outbox_backlog

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
    async with open_tables(session) as tables:
        from router.mailbox.outbox.repository import list_failed_rows

        rows = await list_failed_rows(tables, limit=limit, is_also_waiting=waiting)
    session.emit(rows, FAILED_ROWS, empty="nothing is parked")
    return exit_codes.NO if rows else exit_codes.OK


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
    async with open_tables(session) as tables:
        from router.mailbox.outbox.repository import requeue as put_back

        count = await put_back(tables, events)
    session.emit_one(
        {"requeued": count}, f"{count} requeued" if count else "none of them is parked"
    )
    return exit_codes.OK if count else exit_codes.NO


def _describe_state(row: FailedRow) -> str:
    return "parked" if row.parked_at is not None else f"again at {row.next_attempt_at:%H:%M:%S}"


FAILED_ROWS = View(
    ViewColumn("id"),
    ViewColumn("aggregate", of=lambda row: f"{row.aggregate_type} {row.aggregate_id}"),
    ViewColumn("event", of="event_type"),
    ViewColumn("occurred", of="occurred_at", tell="{:%Y-%m-%d %H:%M:%S}".format),
    ViewColumn("failures"),
    ViewColumn("behind"),
    ViewColumn("state", of=_describe_state),
    ViewColumn("error", of="publish_error"),
)


# -- `router inbox`.

Url = Annotated[
    str | None, typer.Option(help="Call a service instead: POST here. Default: inbox.handler.url.")
]


def load_inbox_settings(
    url: Url = None, dsn: Dsn = None, nats_url: NatsUrl = None, config: ConfigFile = None
) -> Settings:
    return load_with_extra(
        config, {"nats.url": nats_url, "mailbox.dsn": dsn, "inbox.handler.url": url}
    )


@command(load_inbox_settings, has_json=False)
def consume(
    session: CommandSession,
    *,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODULE:FUNCTION]",
            help="async handle(connection, event), in the row's own transaction.",
        ),
    ] = None,
    url: Url = None,
) -> Coroutine[Any, Any, int]:
    """Consume until SIGTERM or Ctrl-C; then finish the messages in flight and end with 0. A second
    signal ends at once: 130.

    Prints one JSON line, inbox.ready, once its durable is there: what is published from then on is
    handled. Logs go to standard error.

    Example:  router inbox consume --url http://127.0.0.1:8000/handle    router inbox consume my_package.events:handle
    """
    if target is not None and url is not None:
        raise typer.BadParameter("give MODULE:FUNCTION or --url: an event has one handler")
    settings = session.settings
    from router.mailbox.inbox_process import InboxService  # only after the extra was checked

    service = InboxService(
        settings,
        import_function(target, "my_package.events:handle") if target is not None else None,
    )
    facts = {"stream": service.stream, "durable": service.durable}
    return session.serve(
        service.run(lambda http: announce_event("inbox.ready", http=http, **facts))
    )


@command(load_context_settings)
async def backlog_of_inbox(session: CommandSession) -> None:
    """Count the received events that are not processed, and show when the oldest of them arrived
    (QRY-051).

    Example:  router inbox backlog --context dock --json
    """
    async with open_tables(session) as tables:
        from router.mailbox.backlog import get_inbox_backlog

        emit_backlog(session, await get_inbox_backlog(tables), "not processed")
