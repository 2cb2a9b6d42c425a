"""`router inbox`: handle events of another context's stream, each once; and count those that wait."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Annotated, Any

import typer

from router.config import Settings
from router.mailbox.commands.mailbox import emit_backlog, load_context_settings, load_with_extra
from router.shell.command_frame import CommandSession, command
from router.shell.import_target import import_function
from router.shell.options import ConfigFile, Dsn, NatsUrl
from router.shell.output import announce_event

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
async def backlog(session: CommandSession) -> None:
    """Count the received events that are not processed, and show when the oldest of them arrived
    (QRY-051).

    Example:  router inbox backlog --context dock --json
    """
    settings = session.settings
    from router.mailbox.backlog import get_inbox_backlog
    from router.mailbox.relay_process import tables_of

    async with tables_of(settings) as tables:
        emit_backlog(session, await get_inbox_backlog(tables), "not processed")
