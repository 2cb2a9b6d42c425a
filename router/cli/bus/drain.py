"""`router bus check-drain`: check whether support for an old version of the schema can be removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import to_builtins

from router.cli import exit_codes
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import print_json, print_table, show_progress
from router.cli.session import open_jetstream, run_client

if TYPE_CHECKING:
    from router.bus.version_usage import VersionUsage
    from router.config import Settings


def check_drain(
    version: Annotated[str, typer.Argument(metavar="VERSION", help="The schema_version whose support is to be removed.")] = "1.0",
    *,
    lag_only: Annotated[
        bool, typer.Option("--lag-only", help="Check only the durables that exist: no consumer will ever start from the beginning.")
    ] = False,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Check whether messages of an envelope version can still arrive: a consumer without support would TERM them.

    They can while a stream holds one message of that version, or (with --lag-only) while a durable still has one to deliver.
    Exit status: 0 support may be removed, 1 it may not.

    Example:  router bus check-drain 1.0
    """
    run_client(nats_url, config, lambda settings: _check(settings, version, lag_only=lag_only, as_json=as_json))


async def _check(settings: Settings, version: str, *, lag_only: bool, as_json: bool) -> int:
    from router.bus.version_usage import find_version_usage

    prefix = settings.bus.stream_prefix
    async with open_jetstream(settings) as jetstream:
        with show_progress("read", is_quiet=as_json) as advance:
            found = [await find_version_usage(jetstream, f"{prefix}-{category}", version, advance) for category in ("events", "commands")]
    drains = [one for one in found if one is not None]
    is_drained = not any(one.is_awaited if lag_only else not one.is_over for one in drains)
    if as_json:
        print_json({"version": version, "drained": is_drained, "streams": [to_builtins(one) for one in drains]})
    else:
        _print(version, drains, is_drained)
    return exit_codes.OK if is_drained else exit_codes.NO


def _print(version: str, drains: list[VersionUsage], is_drained: bool) -> None:
    if not drains:
        print("there are no such streams")
        return
    rows = [(one.stream, one.standing, one.gone_at, _list_waiting(one)) for one in drains]
    print_table(("stream", f"of version {version}", "gone by", "to come, by durable"), rows)
    print(f"version {version} " + ("may be dropped" if is_drained else "must be kept"))


def _list_waiting(drain: VersionUsage) -> str:
    return ", ".join(f"{name}: {count}" for name, count in drain.waiting.items()) or "no durables"
