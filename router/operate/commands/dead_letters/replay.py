"""`router dlq replay`: publish the messages of dead letters again, once the cause of their failure is fixed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from router.operate.commands.dead_letters.editor import edit_payload
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
from router.shell.output import print_json_lines, print_table, show_progress

if TYPE_CHECKING:
    from router.operate.dead_letters import NotReplayed, ReplayOptions, ReplayReport

SOME = 20  # sequences shown of each cause


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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be sent, and send nothing.")] = False,
    rate: Annotated[float | None, typer.Option(help="At most this many messages a second.", min=0.1)] = None,
    edit: Annotated[bool, typer.Option("--edit", help="Open the payload of the one dead letter in $EDITOR first.")] = False,
    max_replays: Annotated[int, typer.Option(help="Publish a message again at most this often in all.", min=1)] = 3,
    forget: Annotated[
        bool, typer.Option("--forget-interrupted", help="Continue, although what a killed replay sent is no longer known.")
    ] = False,
) -> int:
    """Publish the messages of dead letters again, where they failed; a dead letter is removed once its message is proven to be stored.

    It may be killed at any moment: run it again, and every message is sent once. A message that is still wrong fails again and becomes
    a new dead letter; fix it with --edit. Exit status: 0 all sent, 1 some were kept.

    Example:  router dlq replay --reason maxdeliver_exhausted --since 2h --rate 500
    """
    from router.operate.audit import track
    from router.operate.dead_letters import ReplayOptions, ReplayRate
    from router.operate.dead_letters import replay as send_again

    chosen = DeadLetterSelection(sequences, make_filter(subject, reason, code, tenant, since), is_all=every)
    if edit and len(chosen.chosen.sequences) != 1:
        raise typer.BadParameter("--edit takes the number of one dead letter")
    settings = session.settings
    bucket, stream = settings.buckets.assignments_known.name, settings.streams.dlq.name
    options = ReplayOptions(subject_pattern=settings.dlq.subject_pattern, assignments=bucket, max_replays=max_replays)
    if dry_run:
        return await _rehearse(session, chosen, options)
    jetstream = await session.open_jetstream()
    if edit and (options := await _edit_payload(session, chosen.chosen.sequences[0], options)).payload is None:
        return exit_codes.NO
    letters = chosen.read(jetstream, stream, ReplayRate.handful(rate))
    write = chosen.describe_write("dlq replay --edit" if edit else "dlq replay", stream)
    with show_progress("replay", is_quiet=session.as_json) as advance:
        async with track(session, write):
            report = await send_again(jetstream, stream, letters, options, rate=rate, is_forgetful=forget, on_progress=advance)
            write.after = {"sent": report.sent, "finished": report.finished, "kept": len(report.kept), "in_doubt": report.is_in_doubt}
    causes = [{"cause": cause, "count": count, "sequences": some} for cause, count, some in _count_causes(report.kept)]
    fields = {"sent": report.sent, "finished": report.finished, "kept": causes, "in_doubt": report.is_in_doubt}
    session.emit_one(fields, lambda: _print_report(report))
    return exit_codes.OK if report.is_whole else exit_codes.NO


async def _edit_payload(session: CommandSession, sequence: int, options: ReplayOptions) -> ReplayOptions:
    """Return the options with the edited payload; without one if there is nothing to send, which was reported."""
    from msgspec.structs import replace

    from router.operate.dead_letters import NotReplayed, original_of, show

    jetstream = await session.open_jetstream()
    letter = await show(jetstream, session.settings.streams.dlq.name, sequence)
    missing = NotReplayed(sequence, "there is no such dead letter")
    original = await original_of(jetstream, letter, options) if letter is not None else missing
    if isinstance(original, NotReplayed):
        exit_codes.complain(f"dead letter {sequence}: {original.cause}")
        return options
    return replace(options, payload=edit_payload(original.data))


async def _rehearse(session: CommandSession, chosen: DeadLetterSelection, options: ReplayOptions) -> int:
    from router.operate.dead_letters import NotReplayed, rehearse

    jetstream = await session.open_jetstream()
    found = [one async for one in rehearse(jetstream, chosen.read(jetstream, session.settings.streams.dlq.name), options)]
    kept = [one for one in found if isinstance(one, NotReplayed)]
    going = [one for one in found if not isinstance(one, NotReplayed)]
    if session.as_json:
        print_json_lines({"subject": one.subject, "id": one.id, "bytes": len(one.data)} for one in going)
        print_json_lines({"sequence": one.sequence, "kept": one.cause} for one in kept)
    else:
        print(f"{len(going)} would be sent again, {len(kept)} kept; nothing was sent")
        if going:
            print_table(("messages", "subject"), ((count, name) for name, count in Counter(one.subject for one in going).most_common()))
        _print_kept(kept)
    return exit_codes.NO if kept else exit_codes.OK


def _print_report(report: ReplayReport) -> None:
    if report.finished:
        print(f"{report.finished} dead letters of an interrupted replay were removed: their messages had been sent")
    print(f"{report.sent} sent again, {len(report.kept)} kept")
    if report.sent:
        print("what fails again is a new dead letter: `router dlq list` shows it")
    _print_kept(report.kept)
    if report.is_in_doubt:
        exit_codes.complain("it stopped early: run it again, and it finds out what was stored and what was not")


def _print_kept(kept: list[NotReplayed]) -> None:
    if kept:
        print_table(
            ("kept", "because", "dead letters"), ((count, cause, _format_some(some, count)) for cause, count, some in _count_causes(kept))
        )


def _count_causes(kept: list[NotReplayed]) -> list[tuple[str, int, list[int]]]:
    """Return (cause, how many dead letters, the first of them), the most frequent cause first."""
    counts = Counter(one.cause for one in kept)
    return [(cause, count, [one.sequence for one in kept if one.cause == cause][:SOME]) for cause, count in counts.most_common(SOME)]


def _format_some(sequences: list[int], count: int) -> str:
    return " ".join(map(str, sequences)) + (" …" if count > len(sequences) else "")
