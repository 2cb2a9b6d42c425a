"""`router extension serve` and `serve-samples`: serve extensions until a signal stops them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import exit_codes
from router.cli.extension.import_extensions import import_extensions
from router.cli.options import ConfigFile, NatsUrl
from router.cli.output import print_lines
from router.cli.session import load_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from router.sdk.extension import Extension

SAMPLES = ("normalize_text", "mask_payload", "pii_guard", "mask_pii", "echo_provider")

Register = Annotated[bool, typer.Option("--register", help="Ask the router to write the entries that are missing.")]
ApiKey = Annotated[str | None, typer.Option(help="For registering, if the router requires one. Default: the setting admin.api_key.")]
Concurrency = Annotated[int, typer.Option(help="Requests in progress at once, for each function that awaits or blocks.", min=1)]


def serve(
    target: Annotated[str, typer.Argument(metavar="FILE[:FUNCTION]", help="A file with extensions; a module's name will do.")],
    *,
    register: Register = False,
    instance: Annotated[
        list[str] | None, typer.Option(metavar="ID[=WEIGHT]", help="This process in the registry; may be given again.")
    ] = None,
    concurrency: Concurrency = 64,
    drain: Annotated[float, typer.Option(metavar="SECONDS", help="How long running requests may take at the end.", min=0)] = 10.0,
    api_key: ApiKey = None,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
) -> None:
    """Serve extensions until SIGTERM or Ctrl-C; then finish what is in flight and end with 0.

    Prints one JSON line, extensions.ready, once requests are answered. Logs go to standard error.

    Example:  router extension serve my_extensions.py --register
    """
    with exit_codes.report_errors():
        found = import_extensions(target)
    shares = dict(_parse_instance(text) for text in instance or ())
    _serve(found, nats_url, config, api_key, register=register, instances=shares, concurrency=concurrency, drain_s=drain)


def serve_samples(register: Register = False, api_key: ApiKey = None, nats_url: NatsUrl = None, config: ConfigFile = None) -> None:
    """Serve the extensions that come with the package: normalize_text, mask_payload, pii_guard, mask_pii, and the provider echo.

    Example:  router extension serve-samples --register
    """
    found = [one for name in SAMPLES for one in import_extensions(f"router.sdk.samples.extensions.{name}")]
    _serve(found, nats_url, config, api_key, register=register)


def _serve(found: Sequence[Extension], nats_url: str | None, config: Path | None, api_key: str | None, **options: object) -> None:
    from router.cli.signals import run_until_signal
    from router.operations.observability import configure
    from router.sdk.extension import ExtensionServer

    with exit_codes.report_errors():
        settings = load_settings(nats_url, config)
        if api_key is None and settings.admin.api_key is not None:
            api_key = settings.admin.api_key.get_secret_value()
        reach = settings.reply.prefixes
        server = ExtensionServer(*found, nats=settings.nats, api_key=api_key, reply_prefixes=reach, **options)  # type: ignore[arg-type]  # each as its command declares it
    configure(settings.log.level, settings.log.format)
    exit_codes.run(run_until_signal(server.run(partial(_announce, found))))


def _announce(found: Sequence[Extension], nats_url: str) -> None:
    print_lines([{"event": "extensions.ready", "nats_url": nats_url, "subjects": [one.subject for one in found]}])


def _parse_instance(text: str) -> tuple[str, int]:
    instance, equals, weight = text.partition("=")
    if equals and not weight.isdecimal():
        raise typer.BadParameter(f"{text} is not like blue=30", param_hint="--instance")
    return instance, int(weight) if equals else 100
