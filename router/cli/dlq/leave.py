"""`router dlq export` and `discard`: write dead letters to a file, or delete them."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import ends
from router.cli.dlq.chosen import All, Chosen, Of, Reason, Sequences, Since, Subject, Tenant, settings_with, wanted_by
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import print_json, progress
from router.cli.session import jetstream_of

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
    chosen = Chosen(sequences, wanted_by(subject, reason, tenant, since), is_all=every)
    with ends.errors_told():
        settings = settings_with(of, nats_url, config)
    ends.run(_export(settings, chosen, output))


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
    chosen = Chosen(sequences, wanted_by(subject, reason, tenant, since), is_all=every)
    with ends.errors_told():
        settings = settings_with(of, nats_url, config)
    ends.run(_discard(settings, chosen, yes=yes, erase=erase, as_json=as_json))


async def _export(settings: Settings, chosen: Chosen, output: Path | None) -> int:
    from router.deadletters import export as write_out

    stream = settings.streams.dlq.name
    async with jetstream_of(settings) as jetstream:
        with ExitStack() as open_files:
            write = open_files.enter_context(output.open("wb")).write if output is not None else sys.stdout.buffer.write
            advance = open_files.enter_context(progress("export", is_quiet=output is None))
            count = await write_out(chosen.of(jetstream, stream), write, advance)
    if output is not None:
        print(f"{count} dead letters in {output}")
    return ends.OK


async def _discard(settings: Settings, chosen: Chosen, *, yes: bool, erase: bool, as_json: bool) -> int:
    from router.deadletters import discard as discard_letters

    stream = settings.streams.dlq.name
    async with jetstream_of(settings) as jetstream:
        if not yes:
            count = sum([len(handful.letters) async for handful in chosen.of(jetstream, stream)])
            if not count or not typer.confirm(f"Discard {count} dead letters of {stream} for good?", err=True):
                print("no such dead letters" if not count else "nothing was discarded")
                return ends.OK if not count else ends.NO
        with progress("discard", is_quiet=as_json) as advance:
            letters = chosen.of(jetstream, stream, ERASED_AT_ONCE if erase else None)
            count = await discard_letters(jetstream, stream, letters, erase=erase, on_progress=advance)
    if as_json:
        print_json({"discarded": count})
    else:
        print(f"{count} dead letters discarded")
    return ends.OK
