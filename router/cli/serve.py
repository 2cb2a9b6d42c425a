"""`router serve`: one router until it is told to stop, as one process or several, on an embedded broker if asked for."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from router.cli import ends
from router.cli.options import ConfigFile, NatsUrl, PoliciesDir, Workers

if TYPE_CHECKING:
    from router.config import Settings
    from router.embedded import EmbeddedServer

STORE = Path(".router/nats")
PORT = 4222

STOP_S = 10.0  # beyond the hard deadline: what is closed after the drain

Read = Callable[[], "Settings"]  # every source anew: at the start, and again at each reload
Serve = Callable[[], Coroutine[Any, Any, None]]
Announce = Callable[[str, str], None]  # the server's URL, the pages'


def serve(
    *,
    nats_url: NatsUrl = None,
    policies: PoliciesDir = None,
    config: ConfigFile = None,
    http_port: Annotated[int | None, typer.Option(help="Port of /metrics, /healthz and /readyz; 0 = any. Default: 9001.")] = None,
    workers: Workers = None,
    embedded: Annotated[bool, typer.Option("--embedded", help="Start a NATS server of our own as well.")] = False,
    store: Annotated[Path, typer.Option(metavar="DIR", help="Where the embedded server keeps its streams.", file_okay=False)] = STORE,
    nats_port: Annotated[int, typer.Option(help="The embedded server's port; 0 = any.", min=0, max=65535)] = PORT,
) -> None:
    """Run a router: answer requests until SIGTERM or Ctrl-C; then finish what is in hand and end with 0. A second signal hurries: 130.

    Prints one JSON line, router.ready, on standard output once requests are answered. Logs go to standard error.
    --policies only seeds: it puts what the server never had and changes nothing that somebody wrote. Only the samples, which an
    embedded server starts with, give way to it: its files replace them, the others of them are removed, and the log tells each.

    With --workers 2 and more a parent supervises so many processes: one that dies is started again, and SIGHUP reads the
    settings anew and replaces one after the other, so that requests are answered all the time.

    Example:  router serve --embedded --policies ./policies
    """
    if embedded and nats_url is not None:
        raise typer.BadParameter("give --embedded or --nats-url: the embedded server has its own address")
    given = {"nats.url": nats_url, "http.port": http_port, "policies.dir": policies, "workers": workers}
    server = _embedded_server(store, nats_port) if embedded else None
    # A server of our own that does not start is a failure, not a silence.
    ends.run(_serve(lambda: _settings(config, given, server), server), unavailable=ends.SILENT if server is None else ends.NO)


def _embedded_server(store: Path, port: int) -> EmbeddedServer:
    from router.embedded import EmbeddedServer

    return EmbeddedServer(store, port=port)


def _settings(config: Path | None, given: Mapping[str, object], server: EmbeddedServer | None) -> Settings:
    from router.config import load
    from router.errors import Misconfigured

    settings = load(config, given if server is None else {**given, "nats.url": server.url}).settings
    directory = settings.policies.dir
    if directory is None and server is not None:
        return _seeded_from(samples(), settings)
    if directory is not None and not directory.is_dir():
        raise Misconfigured("policies.dir", f"{directory} is not a directory")
    return settings


def _seeded_from(directory: Path | None, settings: Settings) -> Settings:
    return settings.model_copy(update={"policies": settings.policies.model_copy(update={"dir": directory})})


async def _serve(read: Read, server: EmbeddedServer | None) -> int:
    from router.cli.life import on_embedded_broker, until_told
    from router.observability import configure

    settings = read()
    configure(settings.log.level, settings.log.format)

    def announce(nats_url: str, http: str) -> None:
        _announce(nats_url, http, settings)

    serve, reload = (_one(read, announce), None) if settings.workers == 1 else _several(read, announce)
    if server is None:
        return await until_told(serve(), reload=reload)
    server.take_bodies_of(settings.max_payload_bytes)
    stop_s = settings.drain.hard_deadline_ms / 1000 + STOP_S

    async def serve_what_stands() -> None:
        nonlocal settings
        settings = await _as_it_stands(read())
        await serve()

    return await until_told(on_embedded_broker(server, serve_what_stands, stop_s), reload=reload)


async def _as_it_stands(settings: Settings) -> Settings:
    """What is announced: the samples only where nobody's own policy stands."""
    from router.app.policy_seed import only_samples
    from router.cli.policy.store import store_of
    from router.errors import NotFound

    if settings.policies.dir != samples():
        return settings
    with contextlib.suppress(NotFound):  # a new server has no bucket yet
        async with store_of(settings) as store:
            return settings if await only_samples(store) else _seeded_from(None, settings)
    return settings


def _one(read: Read, announce: Announce) -> Serve:
    """This process is the router."""
    from router.app import RouterService

    async def serve() -> None:
        # Read here: by now an embedded server has its address.
        await RouterService(read()).run(lambda ready: announce(ready.nats_url, ready.http))

    return serve


def _several(read: Read, announce: Announce) -> tuple[Serve, Callable[[], None]]:
    """This process is the parent of routers; what serves, and what reloads."""
    from router.fleet import Fleet

    fleet = Fleet(read, announce)
    return fleet.run, fleet.reload


def samples() -> Path:
    """The policies that come with the package."""
    from router.samples import find_policies

    return find_policies()


def _announce(nats_url: str, http: str, settings: Settings) -> None:
    directory = settings.policies.dir
    is_sample = directory == samples()
    policies = "samples" if is_sample else directory
    line: dict[str, object] = {"event": "router.ready", "nats_url": nats_url, "http": http, "policies": policies}
    if settings.workers > 1:
        line["workers"] = settings.workers
    print(orjson.dumps(line, default=str).decode(), flush=True)
    if is_sample:
        print("router: no --policies given: the samples that come with the package are in force", file=sys.stderr)
    if sys.stderr.isatty():
        print(_invitation(nats_url, http), file=sys.stderr, flush=True)


def _invitation(nats_url: str, http: str) -> str:
    where = "" if nats_url.endswith(f":{PORT}") else f" --nats-url {nats_url}"
    return f"""
  ready    {nats_url}    {http}/readyz
  ask      router decide{where} --tenant acme --type chat --payload hello
  look     router doctor{where}
  stop     Ctrl-C
"""
