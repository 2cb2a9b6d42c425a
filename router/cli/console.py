"""`router console`: pages that show what a router does, in a browser."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.shell.command_frame import CommandSession, command
from router.shell.open_browser import open_browser
from router.shell.options import ConfigFile, NatsUrl
from router.shell.output import announce_event

if TYPE_CHECKING:
    from router.config import Settings
    from router.config.load import Loaded
    from router.console import ConsoleServer

HttpHost = Annotated[
    str | None,
    typer.Option("--http-host", metavar="HOST", help="Address to bind. Default: 127.0.0.1."),
]
HttpPort = Annotated[
    int | None,
    typer.Option(
        "--http-port", help="Port of the pages; 0 = any. Default: 9002.", min=0, max=65535
    ),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metrics",
        metavar="URL",
        help="A router's port of /metrics; may be given again. Default: http://127.0.0.1:9001.",
    ),
]
HashPassword = Annotated[
    bool,
    typer.Option(
        "--hash-password", help="Ask for a password, print its hash for console.users, and end."
    ),
]
Open = Annotated[
    bool, typer.Option("--open", help="Open the pages in a browser, if there is one with windows.")
]


def load_console_settings(
    http_host: HttpHost = None,
    http_port: HttpPort = None,
    metrics: Metrics = None,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
) -> Settings:
    """Load the settings with those of the command line. Raises Misconfigured."""
    return _load(http_host, http_port, metrics, nats_url, config).settings


@command(load_console_settings, has_json=False)
async def console(
    session: CommandSession,
    *,
    open_: Open = False,
    hash_password: HashPassword = False,
    http_host: HttpHost = None,
    http_port: HttpPort = None,
    metrics: Metrics = None,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
) -> int:
    """Serve pages that show what a router does, who is hurt, and which command mends it, until
    SIGTERM or Ctrl-C.

    Prints one JSON line, console.ready, on standard output. The pages are there while the broker is
    not: they say what was known, and when. Only names of this machine and those of the setting
    console.hosts are answered. They only read, and need no login; with console.writes = true who
    logs in may mend, with console.users every page needs a login.

    Example:  router console --nats-url nats://nats.internal:4222 --metrics http://router-1:9001 --metrics http://router-2:9001
    """
    if hash_password:
        return _print_hash()
    settings = session.settings
    server = _make_server(settings, _load(http_host, http_port, metrics, nats_url, config).sources)

    def announce(port: int) -> None:
        address = f"http://{settings.console.host}:{port}/"
        announce_event("console.ready", http=address)
        if sys.stderr.isatty():
            print(f"  look     {address}\n", file=sys.stderr, flush=True)
        if open_:
            open_browser(address)

    return await session.serve(server.run(announce))


def _print_hash() -> int:
    """For a program the password is the first line of standard input."""
    from getpass import getpass

    from router.shell import exit_codes

    _import_console()
    from router.shell.access.users import MAX_PASSWORD, hash_password

    password = (
        getpass("Password: ", sys.stderr)
        if sys.stdin.isatty()
        else sys.stdin.readline().rstrip("\r\n")
    )
    if not 0 < len(password) <= MAX_PASSWORD:
        return exit_codes.refuse(f"a password has 1 to {MAX_PASSWORD:,} characters")
    print(hash_password(password))
    return exit_codes.OK


def _load(
    http_host: str | None,
    http_port: int | None,
    metrics: list[str] | None,
    nats_url: str | None,
    config: Path | None,
) -> Loaded:
    from router.shell.session import load_settings_of_command

    given = {
        "nats.url": nats_url,
        "console.host": http_host,
        "console.port": http_port,
        "console.metrics": ",".join(metrics or ()) or None,
    }
    return load_settings_of_command(config, given)


def _make_server(settings: Settings, origins: Mapping[str, str]) -> ConsoleServer:
    return _import_console()(settings, origins)


def _import_console() -> type[ConsoleServer]:
    from router.core.errors import Misconfigured

    try:
        from router.console import ConsoleServer
    except ImportError as exc:
        raise Misconfigured(
            exc.name or "console", "is not installed: pip install 'beamline-router[console]'"
        ) from exc
    return ConsoleServer
