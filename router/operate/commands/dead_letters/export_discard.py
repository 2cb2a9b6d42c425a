"""`router dlq export` and `discard`: write dead letters to a file, or delete them."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from router.core.whole_files import replace_file
from router.operate.commands.dead_letters.selection import (
    All,
    Code,
    DeadLetterSelection,
    Reason,
    Sequences,
    Since,
    Subject,
    Tenant,
    load_system_settings,
    make_filter,
)
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.option_values import confirm
from router.shell.output import show_progress

ERASED_AT_ONCE = 50  # each waits for the disk


@command(load_system_settings, has_json=False)
async def export(
    session: CommandSession,
    sequences: Sequences = None,
    *,
    subject: Subject = None,
    reason: Reason = None,
    code: Code = None,
    tenant: Tenant = None,
    since: Since = None,
    every: All = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write here instead of to standard output.", dir_okay=False)] = None,
) -> None:
    """Write dead letters as JSON lines, oldest first; they stay in their stream.

    Only its owner reads the file, and an earlier one is replaced when all are written.

    Example:  router dlq export --all -o letters.jsonl
    """
    chosen = DeadLetterSelection(sequences, make_filter(subject, reason, code, tenant, since), is_all=every)
    from router.operate.dead_letters import export as write_out

    jetstream = await session.open_jetstream()
    with ExitStack() as open_files:
        write = open_files.enter_context(replace_file(output, is_private=True)).write if output is not None else sys.stdout.buffer.write
        advance = open_files.enter_context(show_progress("export", is_quiet=output is None))
        count = await write_out(chosen.read(jetstream, session.settings.streams.dlq.name), write, advance)
    if output is not None:
        print(f"{count} dead letters in {output}")


@command(load_system_settings)
async def discard(
    session: CommandSession,
    sequences: Sequences = None,
    *,
    subject: Subject = None,
    reason: Reason = None,
    code: Code = None,
    tenant: Tenant = None,
    since: Since = None,
    every: All = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    erase: Annotated[bool, typer.Option("--erase", help="Overwrite them on disk as well; some 170 a second.")] = False,
) -> int:
    """Delete dead letters for good; it asks first. Exit status: 0 done, 1 it was cancelled.

    Example:  router dlq discard --reason unreadable
    """
    chosen = DeadLetterSelection(sequences, make_filter(subject, reason, code, tenant, since), is_all=every)
    from router.operate.audit import track
    from router.operate.dead_letters import discard as discard_letters

    stream, jetstream = session.settings.streams.dlq.name, await session.open_jetstream()
    if not yes:
        count = sum([len(handful.letters) async for handful in chosen.read(jetstream, stream)])
        if not count or not confirm(f"Discard {count} dead letters of {stream} for good?"):
            print("no such dead letters" if not count else "nothing was discarded")
            return exit_codes.OK if not count else exit_codes.NO
    write = chosen.describe_write("dlq discard --erase" if erase else "dlq discard", stream)
    with show_progress("discard", is_quiet=session.as_json) as advance:
        letters = chosen.read(jetstream, stream, ERASED_AT_ONCE if erase else None)
        async with track(session, write):
            count = await discard_letters(jetstream, stream, letters, erase=erase, on_progress=advance)
            write.after = {"discarded": count}
    session.emit_one({"discarded": count}, f"{count} dead letters discarded")
    return exit_codes.OK
