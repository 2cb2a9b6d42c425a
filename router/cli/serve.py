"""`router serve`: one router until it is told to stop, on an embedded broker if asked for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from router.cli import ends
from router.cli.options import ConfigFile, NatsUrl, PoliciesDir

if TYPE_CHECKING:
    from router.app import Ready
    from router.config import Settings

STORE = Path(".router/nats")
PORT = 4222


def serve(
    *,
    nats_url: NatsUrl = None,
    policies: PoliciesDir = None,
    config: ConfigFile = None,
    http_port: Annotated[int | None, typer.Option(help="Port of /metrics, /healthz and /readyz; 0 = any. Default: 9001.")] = None,
    embedded: Annotated[bool, typer.Option("--embedded", help="Start a NATS server of our own as well.")] = False,
    store: Annotated[Path, typer.Option(metavar="DIR", help="Where the embedded server keeps its streams.", file_okay=False)] = STORE,
    nats_port: Annotated[int, typer.Option(help="The embedded server's port; 0 = any.", min=0, max=65535)] = PORT,
) -> None:
    """Serve until SIGTERM or Ctrl-C; then finish what is in hand and end with 0. A second signal hurries: 130.

    Prints one JSON line, router.ready, on standard output once requests are answered. Logs go to standard error.

    Example:  router serve --embedded --policies ./policies
    """
    if embedded and nats_url is not None:
        raise typer.BadParameter("give --embedded or --nats-url: the embedded server has its own address")
    with ends.errors_told():
        settings = _settings(config, nats_url, http_port, policies, embedded)
    ends.run(_serve(settings, store if embedded else None, nats_port))


def _settings(config: Path | None, nats_url: str | None, http_port: int | None, policies: Path | None, embedded: bool) -> Settings:
    from router.config import load
    from router.errors import Misconfigured

    settings = load(config, {"nats.url": nats_url, "http.port": http_port, "policies.dir": policies}).settings
    directory = settings.policies.dir
    if directory is None and embedded:
        return settings.model_copy(update={"policies": settings.policies.model_copy(update={"dir": samples()})})
    if directory is not None and not directory.is_dir():
        raise Misconfigured("policies.dir", f"{directory} is not a directory")
    return settings


async def _serve(settings: Settings, store: Path | None, nats_port: int) -> int:
    from router.app import RouterService
    from router.cli.life import on_embedded_broker, until_told
    from router.embedded import EmbeddedServer
    from router.observability import configure

    configure(settings.log.level, settings.log.format)

    def announce(ready: Ready) -> None:
        _announce(ready, settings)

    if store is None:
        return await until_told(RouterService(settings).run(announce))
    server = EmbeddedServer(store, port=nats_port)
    return await until_told(on_embedded_broker(server, settings, announce))


def samples() -> Path:
    """The policies that come with the package."""
    from router.samples import policies

    return policies()


def _announce(ready: Ready, settings: Settings) -> None:
    directory = settings.policies.dir
    is_sample = directory == samples()
    line = {"event": "router.ready", "nats_url": ready.nats_url, "http": ready.http, "policies": "samples" if is_sample else directory}
    print(orjson.dumps(line, default=str).decode(), flush=True)
    if is_sample:
        print("router: no --policies given: the samples that come with the package are in force", file=sys.stderr)
    if sys.stderr.isatty():
        print(_invitation(ready), file=sys.stderr, flush=True)


def _invitation(ready: Ready) -> str:
    where = "" if ready.nats_url.endswith(f":{PORT}") else f" --nats-url {ready.nats_url}"
    return f"""
  ready    {ready.nats_url}    {ready.http}/readyz
  ask      router decide{where} --tenant acme --type chat --payload hello
  look     router doctor{where}
  stop     Ctrl-C
"""
