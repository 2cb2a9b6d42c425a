"""`router bus tail`: show messages of the bus as they arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from router.contracts.codec import check_limits
from router.contracts.exact_json import dump_json, load_written
from router.contracts.malformed import Malformed
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.formatting import format_bytes
from router.shell.output import print_json_lines, printable

if TYPE_CHECKING:
    from router.delivery.wire.api import StoredMessage

READ_BATCH = 256
FIRST_MESSAGE_S = 1.0


@command()
async def tail(
    session: CommandSession,
    category: Annotated[str, typer.Argument(help="events, commands, queries or dlq.")] = "events",
    *,
    only: Annotated[str | None, typer.Option("--only", help="One domain or command: loop, iteration.start.")] = None,
    last: Annotated[int, typer.Option("--last", "-n", help="Begin this many messages back.", min=0)] = 10,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", "-f", help="Continue until Ctrl-C, or end at the newest message.")] = True,
) -> int:
    """Show messages of a stream as they arrive; nothing is consumed. With --json one object a line.

    Example:  router bus tail events --only loop --last 100 --no-follow
    """
    if category not in ("events", "commands", "queries", "dlq"):
        raise typer.BadParameter("should be events, commands, queries or dlq", param_hint="CATEGORY")
    from router.delivery.consume.stream_reader import open_reader

    prefix, jetstream = session.settings.bus.stream_prefix, await session.open_jetstream()
    stream, subject = f"{prefix}-{category}", f"{prefix}.{category}.{only}" if only is not None else None
    info = await jetstream.stream(stream)
    if info is None:
        return exit_codes.refuse(f"there is no stream {stream}: `router bus topology --apply` makes it")
    start = max(1, int(info["state"]["last_seq"]) - last + 1)  # `last` messages back, if none of them is missing
    async with open_reader(jetstream, stream, start, subject=subject) as reader:
        while (found := await reader.read(READ_BATCH, FIRST_MESSAGE_S if follow else 0.0)) or follow:
            _print_messages(found, session.as_json)
    return exit_codes.OK


def _print_messages(found: list[StoredMessage], as_json: bool) -> None:
    if as_json:
        print_json_lines(_fields(one) for one in found)
        return
    for one in found:
        print(_format_line(one), flush=True)


def _fields(one: StoredMessage) -> dict[str, object]:
    return {"sequence": one.sequence, "time": one.time, "subject": one.subject, "message": _decode_body(one.data)}


def _format_line(one: StoredMessage) -> str:
    """Return time, subject, type, actor and payload; bytes that are no envelope as they are."""
    when, body = one.time[11:23], _decode_body(one.data)
    if not isinstance(body, dict) or "message_type" not in body:
        return f"{one.sequence:>6}  {when}  {printable(one.subject)}  {format_bytes(one.data)}"
    payload = printable(dump_json(body.get("payload")).decode())
    what = printable(f"{body['message_type']}  {body.get('message_id')}  {body.get('actor_kind')} {body.get('actor_id')}")
    return f"{one.sequence:>6}  {when}  {printable(one.subject)}  {what}  {payload}"


def _decode_body(data: bytes) -> object:
    try:
        check_limits(data, len(data))
        return load_written(data)
    except (Malformed, ValueError):  # also if it is nested too deep to be written again
        return data.decode("utf-8", "replace")
