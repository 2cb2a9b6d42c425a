"""`router dlq export`, `discard`, `replay`: write dead letters to a file, delete them, or publish
their messages again.

The edit of a payload stands first: `replay --edit` uses it.
"""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import click
import typer
from msgspec.structs import replace

from router.contracts.codec import require_foreign_value
from router.contracts.malformed import Malformed
from router.contracts.payload_display import indent, pack
from router.core.whole_files import replace_file
from router.operate.audit import track
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
from router.operate.dead_letters import (
    NotReplayed,
    ReplayOptions,
    ReplayRate,
    ReplayReport,
    original_of,
    rehearse,
    show,
)
from router.operate.dead_letters import discard as discard_letters
from router.operate.dead_letters import export as write_out
from router.operate.dead_letters import replay as send_again
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.options import confirm
from router.shell.output import print_json_lines, print_table, show_progress

# -- `router dlq replay`.

SHOWN_SEQUENCES = 20  # of each cause


@command(load_system_settings)
async def replay(
    session: CommandSession,
    sequences: Sequences = None,
    *,
    subject: Subject = None,
    reason: Reason = None,
    code: Code = None,
    tenant: Tenant = None,
    since: Since = None,
    every: All = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be sent, and send nothing.")
    ] = False,
    rate: Annotated[
        float | None, typer.Option(help="At most this many messages a second.", min=0.1)
    ] = None,
    edit: Annotated[
        bool,
        typer.Option("--edit", help="Open the payload of the one dead letter in $EDITOR first."),
    ] = False,
    max_replays: Annotated[
        int, typer.Option(help="Publish a message again at most this often in all.", min=1)
    ] = 3,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget-interrupted",
            help="Continue, although what a killed replay sent is no longer known.",
        ),
    ] = False,
) -> int:
    """Publish the messages of dead letters again, where they failed; a dead letter is removed once
    its message is proven to be stored.

    It may be killed at any moment: run it again, and every message is sent once. A message that is
    still wrong fails again and becomes a new dead letter; fix it with --edit. Exit status: 0 all
    sent, 1 some were kept.

    Example:  router dlq replay --reason maxdeliver_exhausted --since 2h --rate 500
    """
    chosen = DeadLetterSelection(
        sequences, make_filter(subject, reason, code, tenant, since), is_all=every
    )
    if edit and len(chosen.chosen.sequences) != 1:
        raise typer.BadParameter("--edit takes the number of one dead letter")
    settings = session.settings
    bucket, stream = settings.buckets.assignments_known.name, settings.streams.dlq.name
    options = ReplayOptions(
        subject_pattern=settings.dlq.subject_pattern, assignments=bucket, max_replays=max_replays
    )
    if dry_run:
        return await _rehearse(session, chosen, options)
    jetstream = await session.open_jetstream()
    if (
        edit
        and (options := await _edit_payload(session, chosen.chosen.sequences[0], options)).payload
        is None
    ):
        return exit_codes.NO
    dead_letters = chosen.read(jetstream, stream, ReplayRate.handful(rate))
    write = chosen.describe_write("dlq replay --edit" if edit else "dlq replay", stream)
    with show_progress("replay", is_quiet=session.as_json) as advance:
        async with track(session, write):
            report = await send_again(
                jetstream,
                stream,
                dead_letters,
                options,
                rate=rate,
                is_forgetful=forget,
                on_progress=advance,
            )
            write.after = {
                "sent": report.sent,
                "finished": report.finished,
                "kept": len(report.kept),
                "in_doubt": report.is_in_doubt,
            }
    causes = [
        {"cause": cause, "count": count, "sequences": some}
        for cause, count, some in _count_causes(report.kept)
    ]
    fields = {
        "sent": report.sent,
        "finished": report.finished,
        "kept": causes,
        "in_doubt": report.is_in_doubt,
    }
    session.emit_one(fields, lambda: _print_report(report))
    return exit_codes.OK if report.is_whole else exit_codes.NO


async def _edit_payload(
    session: CommandSession, sequence: int, options: ReplayOptions
) -> ReplayOptions:
    """Return the options with the edited payload; without one if there is nothing to send, which
    was reported.
    """
    jetstream = await session.open_jetstream()
    dead_letter = await show(jetstream, session.settings.streams.dlq.name, sequence)
    missing = NotReplayed(sequence, "there is no such dead letter")
    original = (
        await original_of(jetstream, dead_letter, options) if dead_letter is not None else missing
    )
    if isinstance(original, NotReplayed):
        exit_codes.complain(f"dead letter {sequence}: {original.cause}")
        return options
    return replace(options, payload=edit_payload(original.data))


async def _rehearse(
    session: CommandSession, chosen: DeadLetterSelection, options: ReplayOptions
) -> int:
    jetstream = await session.open_jetstream()
    rehearsed = [
        replayed
        async for replayed in rehearse(
            jetstream, chosen.read(jetstream, session.settings.streams.dlq.name), options
        )
    ]
    kept = [replayed for replayed in rehearsed if isinstance(replayed, NotReplayed)]
    going = [replayed for replayed in rehearsed if not isinstance(replayed, NotReplayed)]
    if session.as_json:
        print_json_lines(
            {"subject": effect.subject, "id": effect.id, "bytes": len(effect.data)}
            for effect in going
        )
        print_json_lines(
            {"sequence": not_replayed.sequence, "kept": not_replayed.cause} for not_replayed in kept
        )
    else:
        print(f"{len(going)} would be sent again, {len(kept)} kept; nothing was sent")
        if going:
            print_table(
                ("messages", "subject"),
                (
                    (count, name)
                    for name, count in Counter(effect.subject for effect in going).most_common()
                ),
            )
        _print_kept(kept)
    return exit_codes.NO if kept else exit_codes.OK


def _print_report(report: ReplayReport) -> None:
    if report.finished:
        print(
            f"{report.finished} dead letters of an interrupted replay were removed: their "
            "messages had been sent"
        )
    print(f"{report.sent} sent again, {len(report.kept)} kept")
    if report.sent:
        print("what fails again is a new dead letter: `router dlq list` shows it")
    _print_kept(report.kept)
    if report.is_in_doubt:
        exit_codes.complain(
            "it stopped early: run it again, and it finds out what was stored and what was not"
        )


def _print_kept(kept: list[NotReplayed]) -> None:
    if kept:
        print_table(
            ("kept", "because", "dead letters"),
            (
                (count, cause, _format_some(some, count))
                for cause, count, some in _count_causes(kept)
            ),
        )


def _count_causes(kept: list[NotReplayed]) -> list[tuple[str, int, list[int]]]:
    """Return (cause, how many dead letters, the first of them), the most frequent cause first."""
    counts = Counter(not_replayed.cause for not_replayed in kept)
    return [
        (
            cause,
            count,
            [not_replayed.sequence for not_replayed in kept if not_replayed.cause == cause][
                :SHOWN_SEQUENCES
            ],
        )
        for cause, count in counts.most_common(SHOWN_SEQUENCES)
    ]


def _format_some(sequences: list[int], count: int) -> str:
    return " ".join(map(str, sequences)) + (" …" if count > len(sequences) else "")


# -- The edit of one payload, in the operator's editor.


def edit_payload(data: bytes) -> bytes | None:
    """Return the saved text; JSON is opened indented. None, with a line on standard error:
    unchanged, no text, or no longer JSON.
    """
    text = _decode_text(data)
    if text is None:
        exit_codes.complain(
            "the payload is no text, so it cannot be edited: replay it without --edit, or "
            "discard it"
        )
        return None
    try:
        saved = click.edit(text, extension=".json" if _is_json(data) else ".txt")
    except (click.ClickException, ValueError) as exc:
        # no such program, its status, a quote that is not closed, a text that is not UTF-8
        exit_codes.complain(f"the editor failed, so nothing is sent: {exc}")
        return None
    if saved is None:
        exit_codes.complain("nothing was changed: nothing is sent")
        return None
    if not _is_json(data):
        return saved.encode()
    try:
        return _pack_json(saved.encode())
    except Malformed as exc:
        exit_codes.complain(f"what was saved is not JSON, so nothing is sent: {exc}")
        return None


def _pack_json(data: bytes) -> bytes:
    """Every number, escape and key as it stands there. Raises Malformed."""
    require_foreign_value(data, len(data))
    return pack(data)


def _decode_text(data: bytes) -> str | None:
    if _is_json(data):
        return indent(data)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _is_json(data: bytes) -> bool:
    try:
        require_foreign_value(data, len(data))
    except Malformed:
        return False
    return True


# -- `router dlq export` and `discard`.

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
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Write here instead of to standard output.", dir_okay=False
        ),
    ] = None,
) -> None:
    """Write dead letters as JSON lines, oldest first; they stay in their stream.

    Only its owner reads the file, and an earlier one is replaced when all are written.

    Example:  router dlq export --all -o letters.jsonl
    """
    chosen = DeadLetterSelection(
        sequences, make_filter(subject, reason, code, tenant, since), is_all=every
    )
    jetstream = await session.open_jetstream()
    with ExitStack() as open_files:
        write = (
            open_files.enter_context(replace_file(output, is_private=True)).write
            if output is not None
            else sys.stdout.buffer.write
        )
        advance = open_files.enter_context(show_progress("export", is_quiet=output is None))
        count = await write_out(
            chosen.read(jetstream, session.settings.streams.dlq.name), write, advance
        )
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
    erase: Annotated[
        bool, typer.Option("--erase", help="Overwrite them on disk as well; some 170 a second.")
    ] = False,
) -> int:
    """Delete dead letters for good; it asks first. Exit status: 0 done, 1 it was cancelled.

    Example:  router dlq discard --reason unreadable
    """
    chosen = DeadLetterSelection(
        sequences, make_filter(subject, reason, code, tenant, since), is_all=every
    )
    stream, jetstream = session.settings.streams.dlq.name, await session.open_jetstream()
    if not yes:
        count = sum([len(handful.dead_letters) async for handful in chosen.read(jetstream, stream)])
        if not count or not confirm(f"Discard {count} dead letters of {stream} for good?"):
            print("no such dead letters" if not count else "nothing was discarded")
            return exit_codes.OK if not count else exit_codes.NO
    write = chosen.describe_write("dlq discard --erase" if erase else "dlq discard", stream)
    with show_progress("discard", is_quiet=session.as_json) as advance:
        dead_letters = chosen.read(jetstream, stream, ERASED_AT_ONCE if erase else None)
        async with track(session, write):
            count = await discard_letters(
                jetstream, stream, dead_letters, erase=erase, on_progress=advance
            )
            write.after = {"discarded": count}
    session.emit_one({"discarded": count}, f"{count} dead letters discarded")
    return exit_codes.OK
