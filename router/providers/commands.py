"""`router provider run`: serve a real HTTP API, or an echo, as a provider of the registry."""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from router.core.errors import Misconfigured
from router.providers.options import ECHO, KINDS, ProviderOptions, UpstreamTimes
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.output import announce_event, print_json_lines

if TYPE_CHECKING:
    from router.providers.service import ProviderService

READY = "provider.ready"


@command(has_json=False)
def run(
    session: CommandSession,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The provider's id in the registry.")],
    *,
    kind: Annotated[
        str,
        typer.Option(
            help="Which API it asks: openai (every compatible server), anthropic, ollama, or echo."
        ),
    ],
    base_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where the API is, as http://127.0.0.1:8000/v1. Default: the vendor's own.",
        ),
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The API's key. Read again when it changes.", dir_okay=False
        ),
    ] = None,
    models: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=(
                "JSON: a list of the models that may be asked for, or an object of them with "
                "parameters. Default: all that the API has."
            ),
            dir_okay=False,
        ),
    ] = None,
    concurrency: Annotated[
        int, typer.Option(help="Calls of the API at once; a tenant alone has half.", min=1)
    ] = 128,
    connect_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="For a connection.", min=0.001)
    ] = 5.0,
    first_byte_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Until an answer begins.", min=0.001)
    ] = 60.0,
    read_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Between two bytes of an answer.", min=0.001)
    ] = 30.0,
    insecure_http: Annotated[
        bool,
        typer.Option("--insecure-http", help="Send the key to an http:// address of another host."),
    ] = False,
    stream_usage: Annotated[
        bool,
        typer.Option(help="openai: ask for the usage of a stream. Some servers refuse that."),
    ] = True,
    register: Annotated[
        bool, typer.Option(help="Ask the router to write the entry where there is none.")
    ] = True,
    version: Annotated[str, typer.Option(help="Its version in the registry.")] = "v1",
    timeout_ms: Annotated[
        int,
        typer.Option(
            "--timeout-ms",
            help="Of its entry: for an answer, and between two pieces of a stream.",
            min=10,
            max=60_000,
        ),
    ] = 60_000,
    drain: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="How long running requests may take at the end.", min=0
        ),
    ] = 10.0,
    print_entry: Annotated[
        bool,
        typer.Option(
            "--print-entry", help="Print its entry, for `router extension register -`, and end."
        ),
    ] = False,
) -> Coroutine[Any, Any, int]:
    """Serve an HTTP API as a provider until SIGTERM or Ctrl-C; then finish what is in flight and
    end with 0.

    Prints one JSON line, provider.ready, once requests are answered. Logs go to standard error.

    Example:  router provider run openai --kind openai --key-file openai.key
    """
    if kind not in KINDS:
        raise typer.BadParameter(f"is not one of {', '.join(KINDS)}", param_hint="--kind")
    if kind != ECHO and find_spec("httpx2") is None:
        raise Misconfigured("httpx2", "is not installed: pip install 'beamline-router[gateway]'")
    options = ProviderOptions(
        name=name,
        kind=kind,
        version=version,
        base_url=base_url,
        key_file=key_file,
        models_file=models,
        times=UpstreamTimes(
            connect_s=connect_timeout, first_byte_s=first_byte_timeout, read_s=read_timeout
        ),
        concurrency=concurrency,
        timeout_ms=timeout_ms,
        allows_insecure_http=insecure_http,
        asks_usage=stream_usage,
        drain_s=drain,
        is_registered=register,
    )
    from router.providers.service import ProviderService, serve_provider

    service = ProviderService(options)
    if print_entry:
        return _print_entry(service)
    settings = session.settings
    return session.serve(serve_provider(service, settings, partial(announce_event, READY)))


async def _print_entry(service: ProviderService) -> int:
    print_json_lines([await service.make_entry()])
    return exit_codes.OK
