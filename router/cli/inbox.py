"""`router inbox`: handle events of another context's stream, each once; and count those that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import exit_codes
from router.cli.import_target import import_function
from router.cli.mailbox import Dsn
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import print_json, print_lines
from router.cli.session import load_mailbox_settings, run_with

if TYPE_CHECKING:
    from router.app.inbox import InboxService
    from router.config import Settings

inbox = typer.Typer(no_args_is_help=True, help="Events of another context, handled once (SDS-047).", rich_markup_mode="rich")


@inbox.command()
def consume(
    *,
    target: Annotated[
        str | None,
        typer.Argument(metavar="[MODULE:FUNCTION]", help="async handle(connection, event), in the row's own transaction."),
    ] = None,
    url: Annotated[str | None, typer.Option(help="Call a service instead: POST here. Default: inbox.handler.url.")] = None,
    dsn: Dsn = None,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
) -> None:
    """Consume until SIGTERM or Ctrl-C; then finish the messages in flight and end with 0. A second signal ends at once: 130.

    Prints one JSON line, inbox.ready, before the first message is taken. Logs go to standard error.

    Example:  router inbox consume --url http://127.0.0.1:8000/handle    router inbox consume my_package.events:handle
    """
    if target is not None and url is not None:
        raise typer.BadParameter("give MODULE:FUNCTION or --url: an event has one handler")
    with exit_codes.report_errors():
        settings = load_mailbox_settings(dsn, None, nats_url, config, {"inbox.handler.url": url})
        from router.app.inbox import InboxService  # only after the extra was checked

        service = InboxService(settings, import_function(target, "my_package.events:handle") if target is not None else None)
    exit_codes.run(_consume(service))


@inbox.command()
def backlog(dsn: Dsn = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Count the received events that are not processed, and show when the oldest of them arrived (QRY-051).

    Example:  router inbox backlog --json
    """
    run_with(lambda: load_mailbox_settings(dsn, None, None, config), lambda settings: _backlog(settings, as_json))


async def _consume(service: InboxService) -> int:
    from router.cli.signals import run_until_signal
    from router.operations.observability import configure

    configure(service.settings.log.level, service.settings.log.format)
    facts = {"stream": service.rules.stream, "durable": service.rules.durable}
    return await run_until_signal(service.run(lambda http: print_lines([{"event": "inbox.ready", "http": http, **facts}])))


async def _backlog(settings: Settings, as_json: bool) -> int:
    from router.app.mailbox import tables_of
    from router.mailbox.backlog import get_inbox_backlog

    async with tables_of(settings) as session:
        found = await get_inbox_backlog(session)
    if as_json:
        print_json({"context": settings.mailbox.context, "count": found.count, "oldest_at": found.oldest_at})
    else:
        oldest = f", the oldest of {found.oldest_at:%Y-%m-%d %H:%M:%S} UTC" if found.oldest_at is not None else ""
        print(f"{settings.mailbox.context}: {found.count} not processed{oldest}")
    return exit_codes.OK
