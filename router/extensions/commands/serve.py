"""`router extension serve` and `serve-samples`: serve extensions until a signal stops them."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from router.shell.command_frame import CommandSession, command
from router.shell.import_target import import_extensions
from router.shell.output import announce_event

if TYPE_CHECKING:
    from router.sdk.extension import Extension

SAMPLES = ("normalize_text", "mask_payload", "pii_guard", "mask_pii", "echo_provider")

Register = Annotated[bool, typer.Option("--register", help="Ask the router to write the entries that are missing.")]
ApiKey = Annotated[str | None, typer.Option(help="For registering, if the router requires one. Default: the setting admin.api_key.")]
Concurrency = Annotated[int, typer.Option(help="Requests in progress at once, for each function that awaits or blocks.", min=1)]


@command(has_json=False)
def serve(
    session: CommandSession,
    target: Annotated[str, typer.Argument(metavar="FILE[:FUNCTION]", help="A file with extensions; a module's name will do.")],
    *,
    register: Register = False,
    instance: Annotated[
        list[str] | None, typer.Option(metavar="ID[=WEIGHT]", help="This process in the registry; may be given again.")
    ] = None,
    concurrency: Concurrency = 64,
    drain: Annotated[float, typer.Option(metavar="SECONDS", help="How long running requests may take at the end.", min=0)] = 10.0,
    api_key: ApiKey = None,
) -> Coroutine[Any, Any, int]:
    """Serve extensions until SIGTERM or Ctrl-C; then finish what is in flight and end with 0.

    Prints one JSON line, extensions.ready, once requests are answered. Logs go to standard error.

    Example:  router extension serve my_extensions.py --register
    """
    found = import_extensions(target)
    shares = dict(_parse_instance(text) for text in instance or ())
    return _serve(session, found, api_key, register=register, instances=shares, concurrency=concurrency, drain_s=drain)


@command(has_json=False)
def serve_samples(session: CommandSession, register: Register = False, api_key: ApiKey = None) -> Coroutine[Any, Any, int]:
    """Serve the extensions that come with the package: normalize_text, mask_payload, pii_guard, mask_pii, and the provider echo.

    Example:  router extension serve-samples --register
    """
    found = [one for name in SAMPLES for one in import_extensions(f"router.sdk.samples.extensions.{name}")]
    return _serve(session, found, api_key, register=register)


def _serve(session: CommandSession, found: Sequence[Extension], api_key: str | None, **options: Any) -> Coroutine[Any, Any, int]:
    from router.sdk.extension import ExtensionServer

    settings, ready = session.settings, {"subjects": [one.subject for one in found], "ids": [one.id for one in found]}
    if api_key is None and settings.admin.api_key is not None:
        api_key = settings.admin.api_key.get_secret_value()
    server = ExtensionServer(*found, nats=settings.nats, api_key=api_key, reply_prefixes=settings.reply.prefixes, **options)
    return session.serve(server.run(lambda nats_url: announce_event("extensions.ready", nats_url=nats_url, **ready)))


def _parse_instance(text: str) -> tuple[str, int]:
    instance, equals, weight = text.partition("=")
    if equals and not weight.isdecimal():
        raise typer.BadParameter(f"{text} is not like blue=30", param_hint="--instance")
    return instance, int(weight) if equals else 100
