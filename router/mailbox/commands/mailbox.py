"""`router mailbox`: the tables of a context's outbox and inbox; and how commands reach them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from router.config import Settings
from router.core.errors import Misconfigured
from router.mailbox.entities import Backlog
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.load_settings import load_settings_of_command
from router.shell.options import ConfigFile, ContextName, Dsn, NatsUrl


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


@command(load_database_settings)
async def migrate(session: CommandSession) -> None:
    """Apply the missing migrations; running it twice does nothing.

    Example:  ROUTER_MAILBOX__DSN=postgresql://localhost/sea router mailbox migrate
    """
    settings = session.settings  # first: it says which extra is not installed
    from router.mailbox import schema
    from router.mailbox.relay_process import database_of

    async with database_of(settings) as database:
        applied = [one.name for one in await schema.migrate(database, settings.mailbox.db_schema)]
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
        missing = [one.name for one in await schema.check(database)]
    session.emit_one(
        {"missing": missing}, _format_names("missing", missing) or "all migrations are applied"
    )
    return exit_codes.NO if missing else exit_codes.OK


def emit_backlog(session: CommandSession, found: Backlog, what: str) -> None:
    context = session.settings.mailbox.context
    oldest = (
        f", the oldest of {found.oldest_at:%Y-%m-%d %H:%M:%S} UTC"
        if found.oldest_at is not None
        else ""
    )
    session.emit_one(
        {"context": context, "count": found.count, "oldest_at": found.oldest_at},
        f"{context}: {found.count} {what}{oldest}",
    )


def _format_names(what: str, names: Sequence[str]) -> str:
    return "\n".join(f"{what} {name}" for name in names)
