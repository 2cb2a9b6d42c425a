"""`router audit`: who wrote what, by a command or in the console."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import orjson
import typer

from router.operate.audit import AuditFilter, AuditReader
from router.operate.audit.audit_event import AuditEvent, Values, list_audit_fields
from router.operate.commands.dead_letters.selection import parse_instant
from router.operate.event_reader import StoredEvent
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.output import format_time, print_json_lines, printable
from router.shell.view import View, ViewColumn

Since = Annotated[str, typer.Option("--since", help="10m, 1d, 30d ago, or an ISO time.")]
Who = Annotated[
    str | None,
    typer.Option(
        "--who",
        help="Only by these: a part of user@host, of a console's user, or of the NATS user.",
    ),
]
What = Annotated[
    str | None,
    typer.Option(
        "--what",
        help="Only these: a part of the command and its object, such as `policy put acme`.",
    ),
]
Tenant = Annotated[str | None, typer.Option("--tenant", help="Only writes to this tenant's data.")]
Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Also show each event as it is stored, until Ctrl-C.")
]


@command()
async def audit(
    session: CommandSession,
    *,
    since: Since = "1d",
    who: Who = None,
    what: What = None,
    tenant: Tenant = None,
    follow: Follow = False,
) -> int:
    """Show who wrote what, oldest first: the object, what it was before and after, by a command or
    in the console.

    An event is stored after its write, so a process that is killed between the two leaves none; a
    long write leaves one before it, too. Exit status: 0, also when there are none; 1 this server
    has no stream of them.

    Example:  router audit --since 7d --what "policy put"
    """
    start, wanted = parse_instant(since), AuditFilter(who=who, what=what, tenant=tenant)
    jetstream, stream = await session.open_jetstream(), session.settings.streams.audit.name
    if await jetstream.stream(stream) is None:
        return exit_codes.refuse(
            f"there is no stream {stream} here: the first write of an operator makes it, "
            "or `router topology apply`"
        )
    stored_events = AuditReader(jetstream, stream).read(start, wanted, follow=follow)
    if follow:
        async for stored in stored_events:
            if session.as_json:
                print_json_lines([AUDIT_EVENTS.fields(stored)])
            else:
                cells = [str(cell) for cell in AUDIT_EVENTS.list_cells(stored) if cell is not None]
                print(printable("  ".join(cells)), flush=True)
    events = [stored async for stored in stored_events]
    session.emit(events, AUDIT_EVENTS, empty=f"nothing was written since {since}")
    return exit_codes.OK


def _describe_outcome(stored: StoredEvent[AuditEvent]) -> str:
    event = stored.event
    return f"{event.outcome}: {event.error}" if event.error else event.outcome


def _list_fields(stored: StoredEvent[AuditEvent]) -> Mapping[str, object]:
    return {"seq": stored.sequence, "stored": stored.stored_at, **list_audit_fields(stored.event)}


def _format(values: Values) -> str | None:
    if not values:
        return None
    return " ".join(
        f"{name}={value[:12] if name == 'hash' and isinstance(value, str) else _dump(value)}"
        for name, value in values.items()
    )


def _dump(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()


AUDIT_EVENTS = View(
    ViewColumn("seq", of="sequence"),
    ViewColumn("stored", of="stored_at", tell=format_time),
    ViewColumn("who", of="event.by"),
    ViewColumn("what", of=lambda stored: f"{stored.event.command} {stored.event.target}"),
    ViewColumn("outcome", of=_describe_outcome),
    ViewColumn("before", of="event.before", tell=_format),
    ViewColumn("after", of="event.after", tell=_format),
    ViewColumn("note", of="event.note"),
    fields=_list_fields,
)
