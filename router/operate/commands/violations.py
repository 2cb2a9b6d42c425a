"""`router contract violations`, `violation`, `message`: who broke the header contract, one event of
it, and its message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import orjson
import typer

from router.contracts.exact_json import dump_json
from router.contracts.header_rules import find_rule
from router.contracts.payload_display import describe_payload
from router.core.header_names import tell_headers
from router.core.masking import mask_secrets
from router.delivery.wire.api import JetStream, StoredMessage
from router.operate.commands.dead_letters.selection import parse_instant
from router.operate.views import make_violations_view
from router.operate.violations import (
    DIMENSIONS,
    StoredViolation,
    ViolationFilter,
    ViolationReader,
    add_up,
)
from router.operate.violations.events import list_violation_fields
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.output import (
    build_grid,
    build_heading,
    format_time,
    open_console,
    print_json_lines,
    printable,
)

DEFAULT_BY = "tenant,subject,rule"
NONE = "no violations"

Since = Annotated[str, typer.Option("--since", help="10m, 1h, 7d ago, or an ISO time.")]
Tenant = Annotated[str | None, typer.Option("--tenant", help="Only violations of this tenant.")]
Subject = Annotated[
    str | None,
    typer.Option("--subject", help="Only on this subject; wildcards * and > are allowed."),
]
Rule = Annotated[
    str | None, typer.Option("--rule", help="Only of this rule: malformed, or trace_id.malformed.")
]
By = Annotated[
    str,
    typer.Option(
        "--by",
        help="Add up by these: tenant, subject, rule, header, subscription, inbox, instance.",
    ),
]
Top = Annotated[int, typer.Option("--top", metavar="N", help="Show the N worst lines.", min=1)]
Follow = Annotated[
    bool,
    typer.Option("--follow", "-f", help="Show each event as it is stored instead, until Ctrl-C."),
]


@command()
async def violations(
    session: CommandSession,
    *,
    since: Since = "1h",
    tenant: Tenant = None,
    subject: Subject = None,
    rule: Rule = None,
    by: By = DEFAULT_BY,
    top: Top = 100,
    follow: Follow = False,
) -> int:
    """Show who broke the header contract, the worst first, with one example each. With --json one
    object a line.

    Of more than --top lines a note on standard error says how many are left out: --tenant and the
    like select, --by adds up.

    Exit status: 0, also when there are none; 1 this server has no stream of them.

    Example:  router contract violations --since 1h --by tenant,rule
    """
    start, names = parse_instant(since), _read_names(by)
    wanted = ViolationFilter(tenant=tenant, subject=subject, rule=rule)
    jetstream, stream = await session.open_jetstream(), session.settings.streams.violations.name
    if await jetstream.stream(stream) is None:
        return exit_codes.refuse(
            f"there is no stream {stream} here: no router was started on this server. "
            "`router topology apply` makes it"
        )
    if follow:
        await _follow(session, jetstream, start, wanted)
        return exit_codes.OK
    groups = await add_up(ViolationReader(jetstream, stream).read(start, wanted), names)
    session.emit(groups[:top], make_violations_view(names), empty=f"{NONE} since {since}")
    if left := groups[top:]:
        exit_codes.complain(
            f"{len(left)} more lines with {sum(group.count for group in left)} violations; "
            f"--top {len(groups)} shows all"
        )
    return exit_codes.OK


@command()
async def violation(
    session: CommandSession,
    sequence: Annotated[
        int,
        typer.Argument(metavar="SEQ", help="The number in `router contract violations`.", min=1),
    ],
) -> int:
    """Show one event: who broke which rule, what the header should be, and the command that shows
    the message.

    Exit status: 0 shown, 1 there is no such event.

    Example:  router contract violation 17
    """
    stream = session.settings.streams.violations.name
    stored = await ViolationReader(await session.open_jetstream(), stream).find(sequence)
    if stored is None:
        return exit_codes.refuse(f"there is no event {sequence} in {stream}")
    fields = {
        "seq": stored.sequence,
        "stored": stored.stored_at,
        **list_violation_fields(stored.event),
        **_list_commands(stored),
    }
    session.emit_one(fields)
    return exit_codes.OK


@command()
async def message(
    session: CommandSession,
    stream: Annotated[
        str, typer.Argument(metavar="STREAM", help="The stream that has the message.")
    ],
    sequence: Annotated[int, typer.Argument(metavar="SEQ", help="Its sequence there.", min=1)],
) -> int:
    """Show a stored message: its headers and its payload, the values of masked names hidden.

    Exit status: 0 shown, 1 there is no such message.

    Example:  router contract message ROUTER_DECIDE 4711
    """
    stored = await (await session.open_jetstream()).message(stream, sequence)
    if stored is None:
        return exit_codes.refuse(
            f"{stream} has no message {sequence}: it is too old, or was removed"
        )
    fields = _mask(stored)
    session.emit_one(fields, lambda: _print_message(fields))
    return exit_codes.OK


def _read_names(by: str) -> Sequence[str]:
    names = [name.strip() for name in by.split(",") if name.strip()]
    if not names or not DIMENSIONS.keys() >= set(names):
        raise typer.BadParameter(
            f"{by!r} is not a list of {', '.join(DIMENSIONS)}", param_hint="--by"
        )
    return list(dict.fromkeys(names))


def _list_commands(stored: StoredViolation) -> Mapping[str, str]:
    """What to do next."""
    event = stored.event
    commands = {"explain": f"router explain {find_rule((event.header, event.rule)).code}"}
    if event.stream is not None:
        commands["message"] = f"router contract message {event.stream} {event.sequence}"
    return commands


# -- as they come ----------------------------------------------------------------------------------


async def _follow(
    session: CommandSession, jetstream: JetStream, since: datetime | None, wanted: ViolationFilter
) -> None:
    """Print those since then, and each one that is stored from now on."""
    reader = ViolationReader(jetstream, session.settings.streams.violations.name)
    async for stored in reader.read(since, wanted, follow=True):
        if session.as_json:
            print_json_lines([_list_event(stored)])
        else:
            print(_format_line(stored), flush=True)


def _list_event(stored: StoredViolation) -> Mapping[str, object]:
    return {
        "seq": stored.sequence,
        "stored": stored.stored_at,
        **list_violation_fields(stored.event),
    }


def _format_line(stored: StoredViolation) -> str:
    event = stored.event
    what = (
        f"{DIMENSIONS['tenant'](event)}  {event.subject}  {event.header}.{event.rule}  "
        f"{event.message_id or ''}"
    )
    more = f"  and {event.count - 1} more" if event.count > 1 else ""
    return printable(f"{stored.sequence:>6}  {format_time(stored.stored_at)}  {what}{more}")


# -- a message -------------------------------------------------------------------------------------


def _mask(stored: StoredMessage) -> dict[str, Any]:
    """The message without the values of masked names. A payload that is no JSON object or list is
    described, not shown.
    """
    headers = mask_secrets(tell_headers(stored.headers))
    return {
        "subject": stored.subject,
        "stored": stored.time,
        "bytes": len(stored.data),
        "headers": headers,
        **describe_payload(stored.data),
    }


def _print_message(fields: Mapping[str, Any]) -> None:
    out = open_console()
    out.print(
        build_grid(
            (name, value) for name, value in fields.items() if name not in ("headers", "payload")
        )
    )
    out.print(build_heading("headers"))
    out.print(build_grid(fields["headers"].items()))
    if "payload" in fields:
        out.print(build_heading("payload"))
        out.print(printable(dump_json(fields["payload"], orjson.OPT_INDENT_2).decode()))
