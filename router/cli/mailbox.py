"""`router mailbox`: the tables of a context's outbox and inbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import exit_codes
from router.cli.options import AsJson, ConfigFile
from router.cli.output import print_json
from router.cli.session import load_mailbox_settings, run_with

if TYPE_CHECKING:
    from router.config import Settings

Dsn = Annotated[
    str | None,
    typer.Option(
        metavar="DSN", help="The context's database. Better in ROUTER_MAILBOX__DSN: other users can see options.", show_default=False
    ),
]
ContextName = Annotated[str | None, typer.Option("--context", help="The context. Default: mailbox.context.")]

mailbox = typer.Typer(no_args_is_help=True, help="The tables of outbox and inbox: created, checked.", rich_markup_mode="rich")


@mailbox.command()
def migrate(dsn: Dsn = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Apply the missing migrations; running it twice does nothing.

    Example:  ROUTER_MAILBOX__DSN=postgresql://localhost/sea router mailbox migrate
    """
    run_with(lambda: load_mailbox_settings(dsn, None, None, config), lambda settings: _migrate(settings, as_json))


@mailbox.command()
def check(dsn: Dsn = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """List what `migrate` would apply. Exit status: 0 nothing, 1 something is missing.

    Example:  router mailbox check
    """
    run_with(lambda: load_mailbox_settings(dsn, None, None, config), lambda settings: _check(settings, as_json))


async def _migrate(settings: Settings, as_json: bool) -> int:
    from router.app.mailbox import database_of
    from router.mailbox import schema

    async with database_of(settings) as database:
        applied = [one.name for one in await schema.migrate(database, settings.mailbox.db_schema)]
    if as_json:
        print_json({"applied": applied})
    else:
        print("\n".join(f"applied {name}" for name in applied) or "nothing to apply")
    return exit_codes.OK


async def _check(settings: Settings, as_json: bool) -> int:
    from router.app.mailbox import database_of
    from router.mailbox import schema

    async with database_of(settings) as database:
        missing = [one.name for one in await schema.check(database)]
    if as_json:
        print_json({"missing": missing})
    else:
        print("\n".join(f"missing {name}" for name in missing) or "all migrations are applied")
    return exit_codes.NO if missing else exit_codes.OK
