"""`router dlq replay`: publish the messages of dead letters again, once the cause of their failure is fixed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import exit_codes
from router.cli.dlq.editor import edit_payload
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
from router.cli.output import print_json, print_lines, print_table, show_progress
from router.cli.session import open_jetstream

if TYPE_CHECKING:
    from router.config import Settings
    from router.delivery.api import JetStream
    from router.operations.deadletters import NotReplayed, ReplayOptions, ReplayReport

SOME = 20  # sequences shown of each cause


def replay(
    sequences: Sequences = None,
    *,
    subject: Subject = None,
    reason: Reason = None,
    tenant: Tenant = None,
    since: Since = None,
    every: All = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be sent, and send nothing.")] = False,
    rate: Annotated[float | None, typer.Option(help="At most this many messages a second.", min=0.1)] = None,
    edit: Annotated[bool, typer.Option("--edit", help="Open the payload of the one dead letter in $EDITOR first.")] = False,
    max_replays: Annotated[int, typer.Option(help="Publish a message again at most this often in all.", min=1)] = 3,
    forget: Annotated[
        bool, typer.Option("--forget-interrupted", help="Continue, although what a killed replay sent long ago is no longer known.")
    ] = False,
    of: Of = "router",
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Publish the messages of dead letters again, where they failed; a dead letter is removed once its message is proven to be stored.

    It may be killed at any moment: run it again, and every message is sent once. A message that is still wrong fails again and becomes
    a new dead letter; fix it with --edit. Exit status: 0 all sent, 1 some were kept.

    Example:  router dlq replay --reason maxdeliver_exhausted --since 2h --rate 500
    """
    chosen = DeadLetterSelection(sequences, make_filter(subject, reason, tenant, since), is_all=every)
    if edit and len(chosen.sequences) != 1:
        raise typer.BadParameter("--edit takes the number of one dead letter")
    with exit_codes.report_errors():
        settings = load_system_settings(of, nats_url, config)
    how = _make_options(settings, max_replays)
    if dry_run:
        exit_codes.run(_rehearse(settings, chosen, how, as_json))
    exit_codes.run(_replay(settings, chosen, how, rate=rate, edit=edit, forget=forget, as_json=as_json))


def _make_options(settings: Settings, max_replays: int) -> ReplayOptions:
    from router.operations.deadletters import ReplayOptions

    return ReplayOptions(
        subject_pattern=settings.dlq.subject_pattern, assignments=settings.buckets.assignments_known.name, max_replays=max_replays
    )


async def _replay(
    settings: Settings, chosen: DeadLetterSelection, how: ReplayOptions, *, rate: float | None, edit: bool, forget: bool, as_json: bool
) -> int:
    from router.operations.deadletters import ReplayRate
    from router.operations.deadletters import replay as send_again

    stream = settings.streams.dlq.name
    async with open_jetstream(settings) as jetstream:
        if edit and (how := await _edit_payload(jetstream, stream, chosen.sequences[0], how)).payload is None:
            return exit_codes.NO
        letters = chosen.read(jetstream, stream, ReplayRate.handful(rate))
        with show_progress("replay", is_quiet=as_json) as advance:
            report = await send_again(jetstream, stream, letters, how, rate=rate, is_forgetful=forget, on_progress=advance)
    _print_report(report, as_json)
    return exit_codes.OK if report.is_whole else exit_codes.NO


async def _edit_payload(jetstream: JetStream, stream: str, sequence: int, how: ReplayOptions) -> ReplayOptions:
    """Return the options with the edited payload; without one if there is nothing to send, which was reported."""
    from msgspec.structs import replace

    from router.operations.deadletters import NotReplayed, original_of, show

    letter = await show(jetstream, stream, sequence)
    original = await original_of(jetstream, letter, how) if letter is not None else NotReplayed(sequence, "there is no such dead letter")
    if isinstance(original, NotReplayed):
        exit_codes.complain(f"dead letter {sequence}: {original.cause}")
        return how
    return replace(how, payload=edit_payload(original.data))


async def _rehearse(settings: Settings, chosen: DeadLetterSelection, how: ReplayOptions, as_json: bool) -> int:
    from router.operations.deadletters import NotReplayed, rehearse

    stream = settings.streams.dlq.name
    async with open_jetstream(settings) as jetstream:
        found = [one async for one in rehearse(jetstream, chosen.read(jetstream, stream), how)]
    kept = [one for one in found if isinstance(one, NotReplayed)]
    going = [one for one in found if not isinstance(one, NotReplayed)]
    if as_json:
        print_lines({"subject": one.subject, "id": one.id, "bytes": len(one.data)} for one in going)
        print_lines({"sequence": one.sequence, "kept": one.cause} for one in kept)
    else:
        print(f"{len(going)} would be sent again, {len(kept)} kept; nothing was sent")
        if going:
            print_table(("messages", "subject"), ((count, name) for name, count in Counter(one.subject for one in going).most_common()))
        _print_kept(kept)
    return exit_codes.NO if kept else exit_codes.OK


def _print_report(report: ReplayReport, as_json: bool) -> None:
    if as_json:
        causes = [{"cause": cause, "count": count, "sequences": some} for cause, count, some in _count_causes(report.kept)]
        print_json({"sent": report.sent, "finished": report.finished, "kept": causes, "in_doubt": report.is_in_doubt})
        return
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
