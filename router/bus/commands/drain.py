"""`router bus check-drain`: check whether support for an old version of the schema can be removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import to_builtins

from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.output import print_table, show_progress

if TYPE_CHECKING:
    from router.bus.version_usage import VersionUsage


@command()
async def check_drain(
    session: CommandSession,
    version: Annotated[str, typer.Argument(metavar="VERSION", help="The schema_version whose support is to be removed.")] = "1.0",
    *,
    lag_only: Annotated[
        bool, typer.Option("--lag-only", help="Check only the durables that exist: no consumer will ever start from the beginning.")
    ] = False,
) -> int:
    """Check whether messages of an envelope version can still arrive: a consumer without support would TERM them.

    They can while a stream holds one message of that version, or (with --lag-only) while a durable still has one to deliver.
    Exit status: 0 support may be removed, 1 it may not.

    Example:  router bus check-drain 1.0
    """
    from router.bus.version_usage import find_version_usage

    prefix, jetstream = session.settings.bus.stream_prefix, await session.open_jetstream()
    with show_progress("read", is_quiet=session.as_json) as advance:
        found = [await find_version_usage(jetstream, f"{prefix}-{category}", version, advance) for category in ("events", "commands")]
    drains = [one for one in found if one is not None]
    is_drained = not any(one.is_awaited if lag_only else not one.is_over for one in drains)
    fields = {"version": version, "drained": is_drained, "streams": [to_builtins(one) for one in drains]}
    session.emit_one(fields, lambda: _print_usage(version, drains, is_drained))
    return exit_codes.OK if is_drained else exit_codes.NO


def _print_usage(version: str, drains: list[VersionUsage], is_drained: bool) -> None:
    if not drains:
        print("there are no such streams")
        return
    rows = [(one.stream, one.standing, one.gone_at, _list_waiting(one)) for one in drains]
    print_table(("stream", f"of version {version}", "gone by", "to come, by durable"), rows)
    print(f"version {version} " + ("may be dropped" if is_drained else "must be kept"))


def _list_waiting(drain: VersionUsage) -> str:
    return ", ".join(f"{name}: {count}" for name, count in drain.waiting.items()) or "no durables"
