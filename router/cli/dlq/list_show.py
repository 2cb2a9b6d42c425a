"""`router dlq list`, `show`, `stats`: read dead letters; they stay in their stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import exit_codes
from router.cli.dlq.selection import Of, Reason, Since, Subject, Tenant, load_system_settings, make_filter
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import print_json, print_lines, print_records, print_table
from router.cli.session import open_jetstream, run_with

if TYPE_CHECKING:
    from router.config import Settings
    from router.operations.deadletters import DeadLetterFilter

COLUMNS = ("seq", "stored", "subject", "reason", "error", "tenant", "message id")


def list_(
    *,
    subject: Subject = None,
    reason: Reason = None,
    tenant: Tenant = None,
    since: Since = None,
    limit: Annotated[int, typer.Option(help="At most so many, the newest first.", min=1)] = 50,
    group: Annotated[bool, typer.Option("--group", help="Count them by reason and error instead, the most numerous first.")] = False,
    of: Of = "router",
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """List dead letters, the newest first; with --json one object a line. Exit status 0, also when there are none.

    Example:  router dlq list --tenant acme --since 2h
    """
    wanted = make_filter(subject, reason, tenant, since)
    run_with(
        lambda: load_system_settings(of, nats_url, config),
        lambda settings: _groups(settings, wanted, as_json) if group else _list(settings, wanted, limit, as_json),
    )


def show(
    sequence: Annotated[int, typer.Argument(metavar="SEQ", help="The number in `router dlq list`.", min=1)],
    of: Of = "router",
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show one dead letter whole, its payload decoded. Exit status: 0 shown, 1 there is no such dead letter.

    Example:  router dlq show 17
    """
    run_with(lambda: load_system_settings(of, nats_url, config), lambda settings: _show(settings, sequence, as_json))


def stats(of: Of = "router", nats_url: NatsUrl = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Count the dead letters by subject and reason, and say how full their stream is.

    Example:  router dlq stats
    """
    run_with(lambda: load_system_settings(of, nats_url, config), lambda settings: _stats(settings, as_json))


async def _list(settings: Settings, wanted: DeadLetterFilter, limit: int, as_json: bool) -> int:
    from router.cli.dead_letter import build_row
    from router.operations.deadletters import as_fields, list_newest_first

    async with open_jetstream(settings) as jetstream:
        letters = [letter async for letter in list_newest_first(jetstream, settings.streams.dlq.name, wanted, limit)]
    print_records((as_fields(letter) for letter in letters), COLUMNS, map(build_row, letters), empty="no dead letters", as_json=as_json)
    return exit_codes.OK


async def _groups(settings: Settings, wanted: DeadLetterFilter, as_json: bool) -> int:
    from router.operations.deadletters import group_by, read_by_filter, reason_and_error

    async with open_jetstream(settings) as jetstream:
        groups = await group_by(read_by_filter(jetstream, settings.streams.dlq.name, wanted), reason_and_error)
    names = ("reason", "error", "field", "subject")
    if as_json:
        print_lines({**dict(zip(names, group.kind, strict=True)), **group.facts()} for group in groups)
    elif groups:
        rows = [(group.count, *group.kind, group.oldest[:19], group.newest[:19], group.last_sequence) for group in groups]
        print_table(("dead letters", *names, "oldest", "newest", "last seq"), rows)
    else:
        print("no dead letters")
    return exit_codes.OK


async def _show(settings: Settings, sequence: int, as_json: bool) -> int:
    from router.cli.dead_letter import print_dead_letter
    from router.operations.deadletters import as_full_fields
    from router.operations.deadletters import show as letter_at

    async with open_jetstream(settings) as jetstream:
        letter = await letter_at(jetstream, settings.streams.dlq.name, sequence)
    if letter is None:
        exit_codes.complain(f"there is no dead letter {sequence} in {settings.streams.dlq.name}")
        return exit_codes.NO
    if as_json:
        print_json(as_full_fields(letter))
    else:
        print_dead_letter(letter)
    return exit_codes.OK


async def _stats(settings: Settings, as_json: bool) -> int:
    from router.operations.deadletters import group_by, read_by_filter, subject_and_reason

    stream = settings.streams.dlq.name
    async with open_jetstream(settings) as jetstream:
        groups = await group_by(read_by_filter(jetstream, stream), subject_and_reason)
        info = await jetstream.stream(stream)
    state, limit = (info["state"], info["config"]["max_bytes"]) if info else ({"messages": 0, "bytes": 0}, -1)
    if as_json:
        kinds = [{"subject": group.kind[0], "reason": group.kind[1], **group.facts()} for group in groups]
        print_json({"stream": stream, "letters": state["messages"], "bytes": state["bytes"], "max_bytes": limit, "kinds": kinds})
        return exit_codes.OK
    full = f", {state['bytes'] / limit:.0%} of what it may hold" if limit > 0 else ""
    letters = "1 dead letter" if state["messages"] == 1 else f"{state['messages']} dead letters"
    print(f"{stream}: {letters}, {state['bytes'] / 1e6:.1f} MB{full}")
    if groups:
        rows = [(group.count, *group.kind, f"{group.bytes / 1e6:.1f}", group.oldest[:19], group.newest[:19]) for group in groups]
        print_table(("dead letters", "subject", "reason", "MB", "oldest", "newest"), rows)
    return exit_codes.OK
