"""`router bus topology` and `schema`: the declared streams of the bus beside those of a server, and the envelope's JSON Schema."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import to_builtins

from router.operate.commands.second_place import record_topology
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command, skip_settings
from router.shell.option_values import read_bytes
from router.shell.output import print_table

if TYPE_CHECKING:
    from router.delivery.wire.topology import Difference, StreamSpec

COLUMNS = ("stream", "subjects", "kept", "window", "state")

CheckFile = Annotated[
    Path | None, typer.Option("--check", metavar="FILE", help="Check whether this file is an envelope instead; - is standard input.")
]


@command()
async def topology(
    session: CommandSession,
    apply: Annotated[bool, typer.Option("--apply", help="Create what is missing, and restore what has drifted.")] = False,
) -> int:
    """Show the streams of the bus and how a server's streams differ. Nothing is ever deleted.

    Their names and limits come from NATS_STREAM_PREFIX, NATS_MESSAGE_TTL_SECS, NATS_MAX_MSGS_PER_SUBJECT and
    NATS_DUPLICATE_WINDOW_SECS. Exit status: 0 all is as declared, 1 something differs.

    Example:  NATS_STREAM_PREFIX=acme router bus topology --apply
    """
    from router.bus.build_settings import build_bus_settings
    from router.bus.topology import declare_streams
    from router.delivery.wire import topology as delivery

    wanted = declare_streams(build_bus_settings(session.settings))
    found = await (delivery.apply if apply else delivery.compare)(await session.open_jetstream(), wanted)
    if apply:
        await record_topology(session, "bus topology --apply", [one.name for one in found])
    fields = {"streams": [one.to_json() for one in wanted.streams], "differences": [to_builtins(one) for one in found]}
    session.emit_one(fields, lambda: _print_streams(wanted.streams, found, is_mended=apply))
    return exit_codes.OK if apply or not found else exit_codes.NO


@command(skip_settings, has_json=False)
def schema(session: CommandSession, check: CheckFile = None) -> None:  # noqa: ARG001 - the frame hands it to every command
    """Print the envelope's JSON Schema, for validators of other languages. Exit status of --check: 0 it is one, 1 it is none.

    Example:  router bus schema > message-envelope.schema.json
    """
    from router.contracts.envelope import read_envelope
    from router.contracts.envelope_schema import envelope_schema_file

    if check is None:
        print(envelope_schema_file(), end="")
        return
    found = read_envelope(read_bytes(check, "--check"))  # raises Malformed, which names the field
    print(f"{found.message_type} {found.message_id}, version {found.schema_version}, key {found.idempotency_key}")


def _print_streams(streams: tuple[StreamSpec, ...], found: list[Difference], *, is_mended: bool) -> None:
    states = {} if is_mended else {one.name: one.state for one in found}
    print_table(COLUMNS, (_build_row(one, states.get(one.name, "ok")) for one in streams))
    for difference in found:
        print(("mended: " if is_mended else "") + str(difference))


def _build_row(stream: StreamSpec, state: str) -> tuple[object, ...]:
    from router.operate.doctor.finding import span

    return (stream.name, ", ".join(stream.subjects), span(stream.max_age), span(stream.duplicate_window), state)
