"""`router bus publish`: publish an event or a command on the bus."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Annotated

import typer

from router.shell.command_frame import CommandSession, command
from router.shell.option_values import read_bytes, read_foreign_object

Payload = Annotated[str | None, typer.Option(help="A JSON object; @FILE reads a file, @- standard input. Default: {}.", metavar="JSON")]
Id = Annotated[str | None, typer.Option("--id", help="The event's own id: the same one again is the same message. Default: a new one.")]
Actor = Annotated[str | None, typer.Option("--actor", help="The id of the actor that triggered it. Default: router-cli.")]
Kind = Annotated[str | None, typer.Option("--actor-kind", help="HUMAN, AGENT or SYSTEM. Default: HUMAN.")]


@command()
async def publish(
    session: CommandSession,
    message_type: Annotated[str | None, typer.Argument(metavar="TYPE", help="LoopCreated and so on; it determines the subject.")] = None,
    *,
    payload: Payload = None,
    actor: Actor = None,
    actor_kind: Kind = None,
    message_id: Id = None,
    correlation: Annotated[str | None, typer.Option("--correlation", help="correlation_id.")] = None,
    causation: Annotated[str | None, typer.Option("--causation", help="causation_id.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="idempotency_key. Default: sha256 of type, id, actor and payload.")] = None,
    command: Annotated[str | None, typer.Option("--command", help="Publish it as this command, iteration.start and so on.")] = None,
    file: Annotated[Path | None, typer.Option("--file", help="A whole envelope, as it is; - is standard input.", dir_okay=False)] = None,
) -> None:
    """Publish an event, and wait until it is stored. Exit status: 0 stored (or stored before), 1 refused.

    Example:  router bus publish LoopCreated --payload '{"loop_id": "loop_1"}' --actor user_1
    """
    from router.bus.envelope_making import make_envelope
    from router.contracts.envelope import read_envelope
    from router.sdk.bus import Bus

    if (message_type is None) == (file is None):
        raise typer.BadParameter("give a TYPE, or --file with a whole envelope")
    if file is not None:
        if any(one is not None for one in (payload, actor, actor_kind, message_id, correlation, causation, key)):
            raise typer.BadParameter("--file holds a whole envelope: give none of its fields with it")
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
        ack = await (bus.publisher.event(envelope) if command is None else bus.publisher.command(command, envelope))
    fields = {"message_id": envelope.message_id, "stream": ack.stream, "sequence": ack.sequence, "duplicate": ack.is_duplicate}
    text = f"{envelope.message_id} {'was stored before' if ack.is_duplicate else 'stored'}: {ack.stream} {ack.sequence}"
    session.emit_one({**fields, "idempotency_key": envelope.idempotency_key}, text)
