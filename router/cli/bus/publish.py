"""`router bus publish`: publish an event or a command on the bus."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from router.cli import exit_codes
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import print_json
from router.cli.session import load_settings

if TYPE_CHECKING:
    from router.config import Settings
    from router.contracts.envelope import MessageEnvelope

Payload = Annotated[str, typer.Option(help="A JSON object; @FILE reads it from a file, @- from standard input.", metavar="JSON")]
Id = Annotated[str | None, typer.Option("--id", help="The event's own id: the same one again is the same message. Default: a new one.")]
Kind = Annotated[str, typer.Option("--actor-kind", help="HUMAN, AGENT or SYSTEM.")]


def publish(
    message_type: Annotated[str | None, typer.Argument(metavar="TYPE", help="LoopCreated and so on; it determines the subject.")] = None,
    *,
    payload: Payload = "{}",
    actor: Annotated[str, typer.Option("--actor", help="The id of the actor that triggered it.")] = "router-cli",
    actor_kind: Kind = "HUMAN",
    message_id: Id = None,
    correlation: Annotated[str | None, typer.Option("--correlation", help="correlation_id.")] = None,
    causation: Annotated[str | None, typer.Option("--causation", help="causation_id.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="idempotency_key. Default: sha256 of type, id, actor and payload.")] = None,
    command: Annotated[str | None, typer.Option("--command", help="Publish it as this command, iteration.start and so on.")] = None,
    file: Annotated[Path | None, typer.Option("--file", help="A whole envelope, as it is; - is standard input.", dir_okay=False)] = None,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Publish an event, and wait until it is stored. Exit status: 0 stored (or stored before), 1 refused.

    Example:  router bus publish LoopCreated --payload '{"loop_id": "loop_1"}' --actor user_1
    """
    if (message_type is None) == (file is None):
        raise typer.BadParameter("give a TYPE, or --file with a whole envelope")
    with exit_codes.report_errors():
        settings = load_settings(nats_url, config)
        envelope = (
            _read(file)
            if file is not None
            else _make(
                message_type or "",
                _read_object(payload),
                message_id=message_id or _make_id(),
                actor_id=actor,
                actor_kind=actor_kind,
                correlation_id=correlation,
                causation_id=causation,
                idempotency_key=key,
            )
        )
    exit_codes.run(_publish(settings, envelope, command, as_json))


async def _publish(settings: Settings, envelope: MessageEnvelope, command: str | None, as_json: bool) -> int:
    from router.sdk.bus import Bus

    async with Bus(settings=settings) as bus:
        ack = await (bus.publisher.event(envelope) if command is None else bus.publisher.command(command, envelope))
    fields = {"message_id": envelope.message_id, "stream": ack.stream, "sequence": ack.sequence, "duplicate": ack.is_duplicate}
    if as_json:
        print_json({**fields, "idempotency_key": envelope.idempotency_key})
    else:
        print(f"{envelope.message_id} {'was stored before' if ack.is_duplicate else 'stored'}: {ack.stream} {ack.sequence}")
    return exit_codes.OK


def _make(message_type: str, payload: dict[str, object], **facts: Any) -> MessageEnvelope:
    from router.contracts.envelope_making import make_envelope

    return make_envelope(message_type, payload, **facts)


def _read(file: Path) -> MessageEnvelope:
    from router.contracts.envelope import read_envelope

    return read_envelope(_read_bytes(str(file)))


def _read_object(text: str) -> dict[str, object]:
    data = _read_bytes(text[1:]) if text.startswith("@") else text.encode()
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as exc:
        raise typer.BadParameter(f"not JSON: {exc}", param_hint="--payload") from exc
    if not isinstance(value, dict):
        raise typer.BadParameter("should be a JSON object", param_hint="--payload")
    return value


def _read_bytes(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as exc:
        raise typer.BadParameter(f"{file} cannot be read: {exc.strerror}") from exc


def _make_id() -> str:
    import uuid

    return f"evt_{uuid.uuid4().hex}"
