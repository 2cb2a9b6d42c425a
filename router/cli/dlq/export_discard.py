"""`router dlq export` and `discard`: write dead letters to a file, or delete them."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import exit_codes
from router.cli.dlq.selection import (
    All,
    DeadLetterSelection,
    Of,
    Reason,
    Sequences,
    Since,
    Subject,
    Tenant,
    load_system_settings,
    make_filter,
)
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import print_json, show_progress
from router.cli.session import open_jetstream, run_with

if TYPE_CHECKING:
    from router.config import Settings

ERASED_AT_ONCE = 50  # each waits for the disk


def export(
    sequences: Sequences = None,
    *,
    subject: Subject = None,
    reason: Reason = None,
    tenant: Tenant = None,
    since: Since = None,
    every: All = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write here instead of to standard output.", dir_okay=False)] = None,
    of: Of = "router",
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
) -> None:
    """Write dead letters as JSON lines, oldest first; they stay in their stream.

    Example:  router dlq export --all -o letters.jsonl
    """
    chosen = DeadLetterSelection(sequences, make_filter(subject, reason, tenant, since), is_all=every)
    run_with(lambda: load_system_settings(of, nats_url, config), lambda settings: _export(settings, chosen, output))


def discard(
    sequences: Sequences = None,
    *,
    subject: Subject = None,
    reason: Reason = None,
    tenant: Tenant = None,
    since: Since = None,
    every: All = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    erase: Annotated[bool, typer.Option("--erase", help="Overwrite them on disk as well; some 170 a second.")] = False,
    of: Of = "router",
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Delete dead letters for good; it asks first. Exit status: 0 done, 1 it was cancelled.

    Example:  router dlq discard --reason unreadable
    """
    chosen = DeadLetterSelection(sequences, make_filter(subject, reason, tenant, since), is_all=every)
    run_with(
        lambda: load_system_settings(of, nats_url, config),
        lambda settings: _discard(settings, chosen, yes=yes, erase=erase, as_json=as_json),
    )


async def _export(settings: Settings, chosen: DeadLetterSelection, output: Path | None) -> int:
    from router.operations.deadletters import export as write_out

    stream = settings.streams.dlq.name
    async with open_jetstream(settings) as jetstream:
        with ExitStack() as open_files:
            write = open_files.enter_context(output.open("wb")).write if output is not None else sys.stdout.buffer.write
            advance = open_files.enter_context(show_progress("export", is_quiet=output is None))
            count = await write_out(chosen.read(jetstream, stream), write, advance)
    if output is not None:
        print(f"{count} dead letters in {output}")
    return exit_codes.OK


async def _discard(settings: Settings, chosen: DeadLetterSelection, *, yes: bool, erase: bool, as_json: bool) -> int:
    from router.operations.deadletters import discard as discard_letters

    stream = settings.streams.dlq.name
    async with open_jetstream(settings) as jetstream:
        if not yes:
            count = sum([len(handful.letters) async for handful in chosen.read(jetstream, stream)])
            if not count or not typer.confirm(f"Discard {count} dead letters of {stream} for good?", err=True):
                print("no such dead letters" if not count else "nothing was discarded")
                return exit_codes.OK if not count else exit_codes.NO
        with show_progress("discard", is_quiet=as_json) as advance:
            letters = chosen.read(jetstream, stream, ERASED_AT_ONCE if erase else None)
            count = await discard_letters(jetstream, stream, letters, erase=erase, on_progress=advance)
    if as_json:
        print_json({"discarded": count})
    else:
        print(f"{count} dead letters discarded")
    return exit_codes.OK
