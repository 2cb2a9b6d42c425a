"""`router console`: pages that show what a router does, in a browser."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli.command import CommandSession, command
from router.cli.open_browser import open_browser
from router.cli.options import ConfigFile, NatsUrl
from router.cli.output import print_event

if TYPE_CHECKING:
    from router.config import Settings
    from router.console import ConsoleServer

HttpHost = Annotated[str | None, typer.Option("--http-host", metavar="HOST", help="Address to bind. Default: 127.0.0.1.")]
HttpPort = Annotated[int | None, typer.Option("--http-port", help="Port of the pages; 0 = any. Default: 9002.", min=0, max=65535)]
Metrics = Annotated[
    list[str] | None,
    typer.Option("--metrics", metavar="URL", help="A router's port of /metrics; may be given again. Default: http://127.0.0.1:9001."),
]
Open = Annotated[bool, typer.Option("--open", help="Open the pages in a browser, if there is one with windows.")]


def load_console_settings(
    http_host: HttpHost = None, http_port: HttpPort = None, metrics: Metrics = None, nats_url: NatsUrl = None, config: ConfigFile = None
) -> Settings:
    """Load the settings with those of the command line. Raises Misconfigured."""
    from router.config import load

    given = {"nats.url": nats_url, "console.host": http_host, "console.port": http_port, "console.metrics": ",".join(metrics or ()) or None}
    return load(config, given).settings


@command(load_console_settings, has_json=False)
async def console(session: CommandSession, open_: Open = False) -> int:
    """Serve pages that show what a router does, who is hurt, and which command mends it, until SIGTERM or Ctrl-C. They only read.

    Prints one JSON line, console.ready, on standard output. The pages are there while the broker is not: they say what was known, and
    when. Only names of this machine and those of the setting console.hosts are answered; there is no login, so bind no other address
    than this machine's without a proxy that asks for one.

    Example:  router console --nats-url nats://nats.internal:4222 --metrics http://router-1:9001 --metrics http://router-2:9001
    """
    settings = session.settings
    server = _make_server(settings)

    def announce(port: int) -> None:
        address = f"http://{settings.console.host}:{port}/"
        print_event("console.ready", http=address)
        if sys.stderr.isatty():
            print(f"  look     {address}\n", file=sys.stderr, flush=True)
        if open_:
            open_browser(address)

    return await session.serve(server.run(announce))


def _make_server(settings: Settings) -> ConsoleServer:
    from router.core.errors import Misconfigured

    try:
        from router.console import ConsoleServer
    except ImportError as exc:
        raise Misconfigured(exc.name or "console", "is not installed: pip install 'beamline-router[console]'") from exc
    return ConsoleServer(settings)
