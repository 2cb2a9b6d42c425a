"""`router version`, and whether this version reads what a store holds."""

from __future__ import annotations

import platform
from collections.abc import Coroutine
from importlib.metadata import version as read_version
from typing import Annotated, Any

import typer
from msgspec import to_builtins

from router import __version__
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.output import print_json, print_table

COLUMNS = ("stream", "stored", "examined", "unreadable")

CheckStore = Annotated[
    bool,
    typer.Option(
        "--check-store", help="Ask whether this version, and the one before, read what is stored."
    ),
]


@command()
def version(
    session: CommandSession, *, check_store: CheckStore = False
) -> Coroutine[Any, Any, int] | None:
    """Print the versions of the router and of its main dependencies. Without --check-store no
    server is asked.

    --check-store reads the newest 500 messages of each stream and bucket by the readers of this
    version, and changes nothing. Exit status: 0 all that was read is readable, 1 something is not.

    Example:  router version --json    router version --check-store
    """
    if check_store:
        return _check_store(session)
    versions = {
        "router": __version__,
        "python": platform.python_version(),
        "nats-py": read_version("nats-py"),
    }
    session.emit_one(
        versions,
        f"router {__version__} (Python {versions['python']}, nats-py {versions['nats-py']})",
    )
    return None


async def _check_store(session: CommandSession) -> int:
    # A whole router, of which the versions alone need nothing.
    from router.serve.store_check import (  # noqa: PLC0415
        examine_store,
        find_version_before,
        is_readable,
        is_readable_before,
    )

    reports = await examine_store(await session.open_jetstream(), session.settings)
    before, readable = find_version_before(__version__), is_readable(reports)
    if session.as_json:
        verdict = {
            "version": __version__,
            "readable": readable,
            "before": before,
            "readable_before": is_readable_before(__version__, reports),
        }
        print_json({**verdict, "streams": to_builtins(reports)})
        return exit_codes.OK if readable else exit_codes.NO
    print_table(
        COLUMNS,
        [
            (
                report.stream,
                "missing" if report.messages is None else report.messages,
                report.examined,
                report.unreadable,
            )
            for report in reports
        ],
    )
    for report in reports:
        for message in report.named:
            exit_codes.complain(f"{report.stream}, sequence {message.sequence}: {message.cause}")
    verdict_before = _describe_before(before, is_readable_before(__version__, reports))
    print(f"{__version__} reads {'all of it' if readable else 'not all of it'}; {verdict_before}")
    return exit_codes.OK if readable else exit_codes.NO


def _describe_before(before: str | None, is_readable: bool | None) -> str:
    if before is None:
        return "there is no version before"
    return (
        f"{before} reads "
        f"{'it, too' if is_readable else 'it not: see the upgrade notes in CHANGELOG.md'}"
    )
