"""`router bus check-drain`: whether an old version of the schema can be dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import to_builtins

from router.cli import ends
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import print_json, print_table, progress
from router.cli.session import jetstream_of, settings_of

if TYPE_CHECKING:
    from router.bus.version_usage import VersionUsage
    from router.config import Settings


def check_drain(
    version: Annotated[str, typer.Argument(metavar="VERSION", help="The schema_version whose support is to be dropped.")] = "1.0",
    *,
    lag_only: Annotated[
        bool, typer.Option("--lag-only", help="Look at the durables that exist alone: no consumer will ever begin anew.")
    ] = False,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Say whether a version of the envelope can still be met: a consumer without it would TERM what is left of it.

    It can, as long as a stream holds one message of it, or (with --lag-only) as long as a durable has one to come.
    Exit status: 0 it may be dropped, 1 it may not.

    Example:  router bus check-drain 1.0
    """
    with ends.errors_told():
        settings = settings_of(nats_url, config)
    ends.run(_check(settings, version, lag_only=lag_only, as_json=as_json))


async def _check(settings: Settings, version: str, *, lag_only: bool, as_json: bool) -> int:
    from router.bus.version_usage import find_version_usage

    prefix = settings.bus.stream_prefix
    async with jetstream_of(settings) as jetstream:
        with progress("read", is_quiet=as_json) as advance:
            found = [await find_version_usage(jetstream, f"{prefix}-{category}", version, advance) for category in ("events", "commands")]
    drains = [one for one in found if one is not None]
    is_drained = not any(one.is_awaited if lag_only else not one.is_over for one in drains)
    if as_json:
        print_json({"version": version, "drained": is_drained, "streams": [to_builtins(one) for one in drains]})
    else:
        _print(version, drains, is_drained)
    return ends.OK if is_drained else ends.NO


def _print(version: str, drains: list[VersionUsage], is_drained: bool) -> None:
    if not drains:
        print("there are no such streams")
        return
    rows = [(one.stream, one.standing, one.gone_at, _waiting(one)) for one in drains]
    print_table(("stream", f"of version {version}", "gone by", "to come, by durable"), rows)
    print(f"version {version} " + ("may be dropped" if is_drained else "must be kept"))


def _waiting(drain: VersionUsage) -> str:
    return ", ".join(f"{name}: {count}" for name, count in drain.waiting.items()) or "no durables"
