"""`router bus`: SOLVER-Ralph's envelope bus from the command line.

topology, schema     the declared streams beside those of a server; the envelope's JSON Schema
publish              an event or a command
tail                 messages as they arrive
check-drain          whether support for an old version of the schema can be removed
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Annotated

import typer
from msgspec import to_builtins

from router.bus.build_settings import build_bus_settings
from router.bus.publisher import make_envelope
from router.bus.subjects import declare_streams
from router.bus.version_usage import VersionUsage, find_version_usage
from router.contracts.codec import check_limits
from router.contracts.envelope import envelope_schema_file, read_envelope
from router.contracts.exact_json import dump_json, load_written
from router.contracts.malformed import Malformed
from router.delivery.consume.stream_reader import open_reader
from router.delivery.wire import topology as delivery
from router.delivery.wire.api import StoredMessage
from router.delivery.wire.topology import Difference, StreamSpec
from router.operate.commands.topology import record_topology
from router.operate.doctor.facts import span
from router.sdk.bus import Bus
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command, skip_settings
from router.shell.options import read_bytes, read_foreign_object
from router.shell.output import (
    format_bytes,
    print_json_lines,
    print_table,
    print_view,
    printable,
    show_progress,
)
from router.shell.view import View, ViewColumn

# -- `topology` and `schema`.

CheckFile = Annotated[
    Path | None,
    typer.Option(
        "--check",
        metavar="FILE",
        help="Check whether this file is an envelope instead; - is standard input.",
    ),
]


@command()
async def topology(
    session: CommandSession,
    apply: Annotated[
        bool, typer.Option("--apply", help="Create what is missing, and restore what has drifted.")
    ] = False,
) -> int:
    """Show the streams of the bus and how a server's streams differ. Nothing is ever deleted.

    Their names and limits come from NATS_STREAM_PREFIX, NATS_MESSAGE_TTL_SECS,
    NATS_MAX_MSGS_PER_SUBJECT and NATS_DUPLICATE_WINDOW_SECS. Exit status: 0 all is as declared, 1
    something differs.

    Example:  NATS_STREAM_PREFIX=acme router bus topology --apply
    """
    wanted = declare_streams(build_bus_settings(session.settings))
    differences = await (delivery.apply if apply else delivery.compare)(
        await session.open_jetstream(), wanted
    )
    if apply:
        await record_topology(
            session, "bus topology --apply", [difference.name for difference in differences]
        )
    fields = {
        "streams": [stream.to_json() for stream in wanted.streams],
        "differences": [to_builtins(difference) for difference in differences],
    }
    session.emit_one(fields, lambda: _print_streams(wanted.streams, differences, is_mended=apply))
    return exit_codes.OK if apply or not differences else exit_codes.NO


@command(skip_settings, has_json=False)
def schema(session: CommandSession, check: CheckFile = None) -> None:  # noqa: ARG001 - the frame hands it to every command
    """Print the envelope's JSON Schema, for validators of other languages. Exit status of --check:
    0 it is one, 1 it is none.

    Example:  router bus schema > message-envelope.schema.json
    """
    if check is None:
        print(envelope_schema_file(), end="")
        return
    envelope = read_envelope(
        read_bytes(check, "--check")
    )  # raises Malformed, which names the field
    print(
        f"{envelope.message_type} {envelope.message_id}, version {envelope.schema_version}, key "
        f"{envelope.idempotency_key}"
    )


def _print_streams(
    streams: tuple[StreamSpec, ...], differences: list[Difference], *, is_mended: bool
) -> None:
    states = {} if is_mended else {difference.name: difference.state for difference in differences}
    view = View(
        ViewColumn("stream", of="name"),
        ViewColumn("subjects", tell=", ".join),
        ViewColumn("kept", of="max_age", tell=span),
        ViewColumn("window", of="duplicate_window", tell=span),
        ViewColumn("state", of=lambda stream: states.get(stream.name, "ok")),
    )
    print_view(streams, view)
    for difference in differences:
        print(("mended: " if is_mended else "") + str(difference))


# -- `publish`.

Payload = Annotated[
    str | None,
    typer.Option(
        help="A JSON object; @FILE reads a file, @- standard input. Default: {}.", metavar="JSON"
    ),
]
Id = Annotated[
    str | None,
    typer.Option(
        "--id",
        help="The event's own id: the same one again is the same message. Default: a new one.",
    ),
]
Actor = Annotated[
    str | None,
    typer.Option("--actor", help="The id of the actor that triggered it. Default: router-cli."),
]
Kind = Annotated[
    str | None, typer.Option("--actor-kind", help="HUMAN, AGENT or SYSTEM. Default: HUMAN.")
]


@command()
async def publish(
    session: CommandSession,
    message_type: Annotated[
        str | None,
        typer.Argument(metavar="TYPE", help="LoopCreated and so on; it determines the subject."),
    ] = None,
    *,
    payload: Payload = None,
    actor: Actor = None,
    actor_kind: Kind = None,
    message_id: Id = None,
    correlation: Annotated[
        str | None, typer.Option("--correlation", help="correlation_id.")
    ] = None,
    causation: Annotated[str | None, typer.Option("--causation", help="causation_id.")] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key", help="idempotency_key. Default: sha256 of type, id, actor and payload."
        ),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option("--command", help="Publish it as this command, iteration.start and so on."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", help="A whole envelope, as it is; - is standard input.", dir_okay=False
        ),
    ] = None,
) -> None:
    """Publish an event, and wait until it is stored. Exit status: 0 stored (or stored before), 1
    refused.

    Example:  router bus publish LoopCreated --payload '{"loop_id": "loop_1"}' --actor user_1
    """
    if (message_type is None) == (file is None):
        raise typer.BadParameter("give a TYPE, or --file with a whole envelope")
    if file is not None:
        if any(
            option is not None
            for option in (payload, actor, actor_kind, message_id, correlation, causation, key)
        ):
            raise typer.BadParameter(
                "--file holds a whole envelope: give none of its fields with it"
            )
        envelope = read_envelope(read_bytes(file, "--file"))
    else:
        envelope = make_envelope(
            message_type or "",
            read_foreign_object("{}" if payload is None else payload, "--payload"),
            message_id=message_id or f"evt_{uuid.uuid4().hex}",
            actor_id=actor or "router-cli",
            actor_kind=actor_kind or "HUMAN",
            correlation_id=correlation,
            causation_id=causation,
            idempotency_key=key,
        )
    async with Bus(settings=session.settings) as bus:
        ack = await (
            bus.publisher.event(envelope)
            if command is None
            else bus.publisher.command(command, envelope)
        )
    fields = {
        "message_id": envelope.message_id,
        "stream": ack.stream,
        "sequence": ack.sequence,
        "duplicate": ack.is_duplicate,
    }
    text = (
        f"{envelope.message_id} {'was stored before' if ack.is_duplicate else 'stored'}: "
        f"{ack.stream} {ack.sequence}"
    )
    session.emit_one({**fields, "idempotency_key": envelope.idempotency_key}, text)


# -- `tail`.

READ_BATCH = 256
FIRST_MESSAGE_S = 1.0


@command()
async def tail(
    session: CommandSession,
    category: Annotated[str, typer.Argument(help="events, commands, queries or dlq.")] = "events",
    *,
    only: Annotated[
        str | None, typer.Option("--only", help="One domain or command: loop, iteration.start.")
    ] = None,
    last: Annotated[
        int, typer.Option("--last", "-n", help="Begin this many messages back.", min=0)
    ] = 10,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow/--no-follow",
            "-f",
            help="Continue until Ctrl-C, or end at the newest message.",
        ),
    ] = True,
) -> int:
    """Show messages of a stream as they arrive; nothing is consumed. With --json one object a line.

    Example:  router bus tail events --only loop --last 100 --no-follow
    """
    if category not in ("events", "commands", "queries", "dlq"):
        raise typer.BadParameter(
            "should be events, commands, queries or dlq", param_hint="CATEGORY"
        )
    prefix, jetstream = session.settings.bus.stream_prefix, await session.open_jetstream()
    stream, subject = (
        f"{prefix}-{category}",
        f"{prefix}.{category}.{only}" if only is not None else None,
    )
    info = await jetstream.stream(stream)
    if info is None:
        return exit_codes.refuse(
            f"there is no stream {stream}: `router bus topology --apply` makes it"
        )
    # `last` messages back, if none of them is missing
    start = max(1, int(info["state"]["last_seq"]) - last + 1)
    async with open_reader(jetstream, stream, start, subject=subject) as reader:
        while (
            messages := await reader.read(READ_BATCH, FIRST_MESSAGE_S if follow else 0.0)
        ) or follow:
            _print_messages(messages, session.as_json)
    return exit_codes.OK


def _print_messages(messages: list[StoredMessage], as_json: bool) -> None:
    if as_json:
        print_json_lines(_list_message_fields(stored) for stored in messages)
        return
    for stored in messages:
        print(_format_line(stored), flush=True)


def _list_message_fields(stored: StoredMessage) -> dict[str, object]:
    return {
        "sequence": stored.sequence,
        "time": stored.time,
        "subject": stored.subject,
        "message": _decode_body(stored.data),
    }


def _format_line(stored: StoredMessage) -> str:
    """Return time, subject, type, actor and payload; bytes that are no envelope as they are."""
    when, body = stored.time[11:23], _decode_body(stored.data)
    if not isinstance(body, dict) or "message_type" not in body:
        return (
            f"{stored.sequence:>6}  {when}  "
            f"{printable(stored.subject)}  {format_bytes(stored.data)}"
        )
    payload = printable(dump_json(body.get("payload")).decode())
    what = printable(
        f"{body['message_type']}  {body.get('message_id')}  {body.get('actor_kind')} "
        f"{body.get('actor_id')}"
    )
    return f"{stored.sequence:>6}  {when}  {printable(stored.subject)}  {what}  {payload}"


def _decode_body(data: bytes) -> object:
    try:
        check_limits(data, len(data))
        return load_written(data)
    except (Malformed, ValueError):  # also if it is nested too deep to be written again
        return data.decode("utf-8", "replace")


# -- `check-drain`.


@command()
async def check_drain(
    session: CommandSession,
    version: Annotated[
        str,
        typer.Argument(
            metavar="VERSION", help="The schema_version whose support is to be removed."
        ),
    ] = "1.0",
    *,
    lag_only: Annotated[
        bool,
        typer.Option(
            "--lag-only",
            help=(
                "Check only the durables that exist: no consumer will ever start from the "
                "beginning."
            ),
        ),
    ] = False,
) -> int:
    """Check whether messages of an envelope version can still arrive: a consumer without support
    would TERM them.

    They can while a stream holds one message of that version, or (with --lag-only) while a durable
    still has one to deliver. Exit status: 0 support may be removed, 1 it may not.

    Example:  router bus check-drain 1.0
    """
    prefix, jetstream = session.settings.bus.stream_prefix, await session.open_jetstream()
    with show_progress("read", is_quiet=session.as_json) as advance:
        measured = [
            await find_version_usage(jetstream, f"{prefix}-{category}", version, advance)
            for category in ("events", "commands")
        ]
    drains = [drain for drain in measured if drain is not None]
    is_drained = not any(drain.is_awaited if lag_only else not drain.is_over for drain in drains)
    fields = {
        "version": version,
        "drained": is_drained,
        "streams": [to_builtins(drain) for drain in drains],
    }
    session.emit_one(fields, lambda: _print_usage(version, drains, is_drained))
    return exit_codes.OK if is_drained else exit_codes.NO


def _print_usage(version: str, drains: list[VersionUsage], is_drained: bool) -> None:
    if not drains:
        print("there are no such streams")
        return
    rows = [(drain.stream, drain.standing, drain.gone_at, _list_waiting(drain)) for drain in drains]
    print_table(("stream", f"of version {version}", "gone by", "to come, by durable"), rows)
    print(f"version {version} " + ("may be dropped" if is_drained else "must be kept"))


def _list_waiting(drain: VersionUsage) -> str:
    return ", ".join(f"{name}: {count}" for name, count in drain.waiting.items()) or "no durables"
