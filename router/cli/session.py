"""What a client command needs: the settings, and JetStream while it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from router.cli import exit_codes

if TYPE_CHECKING:
    from router.config import Settings
    from router.delivery.api import JetStream

Work = Callable[["Settings"], Coroutine[Any, Any, int]]  # returns the exit status

NOTHING: Mapping[str, object] = MappingProxyType({})


def run_client(nats_url: str | None, config: Path | None, work: Work) -> NoReturn:
    """Load the settings, run a client command's work with them, and exit with the status it returns."""
    run_with(lambda: load_settings(nats_url, config), work)


def run_with(load: Callable[[], Settings], work: Work) -> NoReturn:
    """Do the same with settings that `load` returns."""
    with exit_codes.report_errors():
        settings = load()
    exit_codes.run(work(settings))


def load_settings(nats_url: str | None, config: Path | None) -> Settings:
    """Load the settings of a command. Raises Misconfigured."""
    from router.config import load

    return load(config, {"nats.url": nats_url}).settings


def load_mailbox_settings(
    dsn: str | None, context: str | None, nats_url: str | None, config: Path | None, more: Mapping[str, object] = NOTHING
) -> Settings:
    """Load the settings of a command for one context's database. Raises Misconfigured, also without the extra `postgres`."""
    from router.cli.extras import need
    from router.config import load

    need("postgres", "psycopg", "psycopg_pool", "httpx2")
    return load(config, {"nats.url": nats_url, "mailbox.dsn": dsn, "mailbox.context": context, **more}).settings


@asynccontextmanager
async def open_jetstream(settings: Settings) -> AsyncIterator[JetStream]:
    """Open JetStream over a connection of its own. Raises BrokerUnavailable."""
    from router.app.connect import connect_by
    from router.delivery.api import JetStream

    connection = await connect_by(settings.nats)
    try:
        yield JetStream(connection, settings.nats.js_domain)
    finally:
        await connection.close()
