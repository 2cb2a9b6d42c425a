"""`router serve`: run a router until a signal stops it, as one process or several, on an embedded
broker if asked for, with a console or a gateway beside it if asked for.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from router.config import Settings
from router.core.errors import Misconfigured, NotFound
from router.delivery.kv.documents import DocumentBucket
from router.policies.followed import SAMPLE_POLICIES, has_only_samples
from router.policies.store import PolicyStore
from router.process.embedded import EmbeddedServer
from router.process.observability import configure
from router.serve.commands.companions import CompanionChoice
from router.serve.fleet import Fleet
from router.serve.service import RouterService
from router.shell import exit_codes
from router.shell.options import ConfigFile, NatsUrl, PoliciesDir, Processes, RenamedWorkers
from router.shell.output import announce_event
from router.shell.session import load_settings_of_command, open_jetstream
from router.shell.signals import run_until_signal, serve_on_embedded_broker

STORE = Path(".router/nats")
PORT = 4222

STOP_S = 10.0  # beyond the hard deadline: for closing after the drain

Read = Callable[[], "Settings"]  # reads every source: at the start, and again at each reload
Serve = Callable[[], Coroutine[Any, Any, None]]
Announce = Callable[[str, str], None]  # gets the server's URL and the HTTP address


def serve(
    *,
    nats_url: NatsUrl = None,
    policies: PoliciesDir = None,
    config: ConfigFile = None,
    http_port: Annotated[
        int | None,
        typer.Option(help="Port of /metrics, /healthz and /readyz; 0 = any. Default: 9001."),
    ] = None,
    processes: Processes = None,
    _workers: RenamedWorkers = None,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="Start an embedded NATS server as well.")
    ] = False,
    store: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="Where the embedded server stores its streams.", file_okay=False
        ),
    ] = STORE,
    nats_port: Annotated[
        int, typer.Option(help="The embedded server's port; 0 = any.", min=0, max=65535)
    ] = PORT,
    console: Annotated[
        bool,
        typer.Option(
            "--console", help="With --embedded: start the console as well, a process of its own."
        ),
    ] = False,
    open_console: Annotated[
        bool, typer.Option("--open", help="With --console: open it in a browser, if there is one.")
    ] = False,
    gateway: Annotated[
        bool,
        typer.Option(
            "--gateway",
            help="With --embedded: start an HTTP gateway as well, and a provider that echoes.",
        ),
    ] = False,
) -> None:
    """Run a router: answer requests until SIGTERM or Ctrl-C; then finish what is in flight and end
    with 0. A second signal: 130.

    Prints one JSON line, router.ready, on standard output once requests are answered. Logs go to
    standard error. --policies only seeds: it stores what the server never had and changes no policy
    that a person wrote. Only the samples, which an embedded server starts with, are replaced: its
    files replace them, the others of them are removed, and the log names each.

    With --processes 2 and more a parent supervises the processes: it restarts one that dies, and at
    SIGHUP it reads the settings again and replaces one process after the other, so that requests
    are answered all the time.

    With --console the console is a child of this process; it prints console.ready with its address
    after that. With --gateway so is an HTTP gateway; gateway.ready has its address, and a key of
    the tenant acme that lives as long as it. Its model router/echo is answered here.

    Example:  router serve --embedded --console --policies ./policies
    """
    if embedded and nats_url is not None:
        raise typer.BadParameter(
            "give --embedded or --nats-url: the embedded server has its own address"
        )
    if console and not embedded:
        raise typer.BadParameter(
            "--console goes with --embedded; beside another server run `router console`, "
            "with a role of its own"
        )
    if gateway and not embedded:
        raise typer.BadParameter(
            "--gateway goes with --embedded; beside another server run `router gateway`, "
            "with a role of its own"
        )
    if open_console and not console:
        raise typer.BadParameter("--open goes with --console")
    given = {
        "nats.url": nats_url,
        "http.port": http_port,
        "policies.dir": policies,
        "processes": processes,
    }
    server = _make_server(store, nats_port) if embedded else None
    # An embedded server that does not start is a failure, not a missing answer.
    unavailable = exit_codes.NO_ANSWER if server is None else exit_codes.NO
    chosen = CompanionChoice(config)
    with exit_codes.report_errors():
        if console:
            chosen.add_console(is_opened=open_console)
        if gateway:
            chosen.add_gateway()
    work = _serve(lambda: _load_settings(config, given, server), server, chosen)
    raise typer.Exit(exit_codes.run(work, unavailable=unavailable))


def _make_server(store: Path, port: int) -> EmbeddedServer:
    return EmbeddedServer(store, port=port)


def _load_settings(
    config: Path | None, given: Mapping[str, object], server: EmbeddedServer | None
) -> Settings:
    settings = load_settings_of_command(
        config, given if server is None else {**given, "nats.url": server.url}
    ).settings
    directory = settings.policies.dir
    if directory is None and server is not None:
        return _set_policies_dir(find_samples(), settings)
    if directory is not None and not directory.is_dir():
        raise Misconfigured("policies.dir", f"{directory} is not a directory")
    return settings


def _set_policies_dir(directory: Path | None, settings: Settings) -> Settings:
    return settings.model_copy(
        update={"policies": settings.policies.model_copy(update={"dir": directory})}
    )


async def _serve(read: Read, server: EmbeddedServer | None, chosen: CompanionChoice) -> int:
    settings = read()
    configure(settings.log.level, settings.log.format)
    companions = chosen.make()

    def announce(nats_url: str, http: str) -> None:
        _announce(nats_url, http, settings)
        for companion in companions:
            companion.start(nats_url, http)

    serve, reload = (
        (_serve_alone(read, announce), None)
        if settings.processes == 1
        else _serve_fleet(read, announce)
    )
    if server is None:
        return await run_until_signal(serve(), reload=reload)
    server.take_bodies_of(settings.max_payload_bytes)
    stop_s = settings.drain.hard_deadline_ms / 1000 + STOP_S

    async def serve_what_stands() -> None:
        nonlocal settings
        settings = await _drop_unused_samples(read())
        await serve()

    beside = [companion.child for companion in companions]
    return await run_until_signal(
        serve_on_embedded_broker(server, serve_what_stands, stop_s, beside), reload=reload
    )


async def _drop_unused_samples(settings: Settings) -> Settings:
    """Return the settings to announce: with the samples only if the server has no policy of a user."""
    if settings.policies.dir != find_samples():
        return settings
    with contextlib.suppress(NotFound):  # a new server has no bucket yet
        async with open_jetstream(settings) as jetstream:
            store = PolicyStore(DocumentBucket(jetstream, settings.buckets.policies.name))
            return settings if await has_only_samples(store) else _set_policies_dir(None, settings)
    return settings


def _serve_alone(read: Read, announce: Announce) -> Serve:
    """This process is the router."""

    async def serve() -> None:
        # Read the settings here: only now the embedded server has its address.
        await RouterService(read()).run(lambda ready: announce(ready.nats_url, ready.http))

    return serve


def _serve_fleet(read: Read, announce: Announce) -> tuple[Serve, Callable[[], None]]:
    """This process is the parent of several routers; return the functions that serve and reload."""
    fleet = Fleet(read, announce)
    return fleet.run, fleet.reload


def find_samples() -> Path:
    """Return the directory of the policies that come with the package."""
    return SAMPLE_POLICIES


def _announce(nats_url: str, http: str, settings: Settings) -> None:
    directory = settings.policies.dir
    is_sample = directory == find_samples()
    policies = "samples" if is_sample else directory
    processes = {"processes": settings.processes} if settings.processes > 1 else {}
    announce_event("router.ready", nats_url=nats_url, http=http, policies=policies, **processes)
    with contextlib.suppress(OSError):  # words for people, on an output that may be full
        if is_sample:
            print(
                "router: no --policies given: the samples that come with the package are in use",
                file=sys.stderr,
                flush=True,
            )
        if sys.stderr.isatty():
            print(_format_invitation(nats_url, http), file=sys.stderr, flush=True)


def _format_invitation(nats_url: str, http: str) -> str:
    where = "" if nats_url.endswith(f":{PORT}") else f" --nats-url {nats_url}"
    return f"""
  ready    {nats_url}    {http}/readyz
  ask      router decide{where} --tenant acme --type chat --payload hello
  look     router doctor{where}
  stop     Ctrl-C
"""
