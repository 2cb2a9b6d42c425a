"""`router dlq list`, `show`, `stats`: read dead letters; they stay in their stream."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from router.operate.commands.dead_letters.selection import (
    Code,
    Reason,
    Since,
    Subject,
    Tenant,
    load_system_settings,
    make_filter,
)
from router.operate.dead_letters import (
    DeadLetter,
    as_full_fields,
    group_by,
    list_newest_first,
    read_heads,
    reason_and_error,
    subject_and_reason,
)
from router.operate.dead_letters import show as read_letter
from router.operate.views import DEAD_LETTERS, make_groups_view
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.output import (
    build_grid,
    build_heading,
    build_panel,
    format_bytes,
    open_console,
    print_view,
)

GROUPINGS = ("reason", "error", "field", "subject")
NO_DEAD_LETTERS = "no dead letters"


@command(load_system_settings)
async def list_(
    session: CommandSession,
    *,
    subject: Subject = None,
    reason: Reason = None,
    code: Code = None,
    tenant: Tenant = None,
    since: Since = None,
    limit: Annotated[int, typer.Option(help="At most so many, the newest first.", min=1)] = 50,
    group: Annotated[
        bool,
        typer.Option(
            "--group", help="Count them by reason and error instead, the most numerous first."
        ),
    ] = False,
) -> None:
    """List dead letters, the newest first; with --json one object a line. Exit status 0, also when
    there are none.

    Example:  router dlq list --tenant acme --since 2h
    """
    wanted = make_filter(subject, reason, code, tenant, since)
    stream, jetstream = session.settings.streams.dlq.name, await session.open_jetstream()
    if group:
        groups = await group_by(read_heads(jetstream, stream, wanted), reason_and_error)
        session.emit(groups, make_groups_view(GROUPINGS), empty=NO_DEAD_LETTERS)
        return
    dead_letters = [
        dead_letter async for dead_letter in list_newest_first(jetstream, stream, wanted, limit)
    ]
    session.emit(dead_letters, DEAD_LETTERS, empty=NO_DEAD_LETTERS)


@command(load_system_settings)
async def show(
    session: CommandSession,
    sequence: Annotated[
        int, typer.Argument(metavar="SEQ", help="The number in `router dlq list`.", min=1)
    ],
) -> int:
    """Show one dead letter whole, its payload decoded. Exit status: 0 shown, 1 there is no such
    dead letter.

    Example:  router dlq show 17
    """
    stream = session.settings.streams.dlq.name
    dead_letter = await read_letter(await session.open_jetstream(), stream, sequence)
    if dead_letter is None:
        return exit_codes.refuse(f"there is no dead letter {sequence} in {stream}")
    session.emit_one(as_full_fields(dead_letter), lambda: print_dead_letter(dead_letter))
    return exit_codes.OK


@command(load_system_settings)
async def stats(session: CommandSession) -> None:
    """Count the dead letters by subject and reason, and say how full their stream is.

    Example:  router dlq stats
    """
    stream, jetstream = session.settings.streams.dlq.name, await session.open_jetstream()
    groups = await group_by(read_heads(jetstream, stream), subject_and_reason)
    info = await jetstream.stream(stream)
    state, limit = (
        (info["state"], info["config"]["max_bytes"]) if info else ({"messages": 0, "bytes": 0}, -1)
    )
    view = make_groups_view(("subject", "reason"), has_size=True)
    full = f", {state['bytes'] / limit:.0%} of what it may hold" if limit > 0 else ""
    count = "1 dead letter" if state["messages"] == 1 else f"{state['messages']} dead letters"
    fields = {
        "stream": stream,
        "letters": state["messages"],
        "bytes": state["bytes"],
        "max_bytes": limit,
        "kinds": [view.fields(group) for group in groups],
    }
    session.emit_one(fields, f"{stream}: {count}, {state['bytes'] / 1e6:.1f} MB{full}")
    if groups and not session.as_json:
        print_view(groups, view)


def print_dead_letter(dead_letter: DeadLetter) -> None:
    """Print the whole dead letter in a frame: what happened, the message's headers, its payload."""
    parts: list[RenderableType] = [build_grid(_list_facts(dead_letter))]
    if dead_letter.headers:
        parts += [build_heading("headers"), build_grid(dead_letter.headers.items())]
    parts.append(
        build_heading(
            "payload" + (f"  ({dead_letter.payload_note})" if dead_letter.payload_note else "")
        )
    )
    parts.append(Text(format_bytes(dead_letter.payload) if dead_letter.payload is not None else ""))
    open_console().print(build_panel(f"dead letter {dead_letter.sequence}", parts))


def _list_facts(dead_letter: DeadLetter) -> list[tuple[str, object]]:
    source = dead_letter.source
    unconfirmed = (
        " (the first of them not confirmed: its process died)"
        if source.attempts_unconfirmed
        else ""
    )
    place = (
        f"{source.stream} {source.sequence}, delivery {source.deliveries}, start "
        f"{source.attempts}{unconfirmed}"
    )
    facts: list[tuple[str, object]] = [
        ("subject", dead_letter.original_subject),
        ("reason", dead_letter.reason),
        ("error", ": ".join(text for text in (dead_letter.code, dead_letter.message) if text)),
        ("field", dead_letter.field),
        ("stage", dead_letter.stage),
        ("tenant", dead_letter.tenant_id),
        ("request", dead_letter.request_id),
        ("message id", dead_letter.msg_id),
        ("trace", dead_letter.trace_id),
        ("stored", dead_letter.stored_at),
        ("from", place if source.stream else None),
    ]
    return [(name, value) for name, value in facts if value]
