"""`router agent send`: publish a command or an event to an agent's subject."""

from __future__ import annotations

from typing import Annotated
from uuid import uuid4

import typer

from router.agents.commands.run import make_places
from router.shell.command_frame import CommandSession, command
from router.shell.option_values import read_foreign


@command()
async def send(
    session: CommandSession,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="ledger.post, or a whole subject: cmd.shop.orders.pay, evt.….")],
    *,
    payload: Annotated[str, typer.Option(help="Any JSON value; @FILE reads a file, - standard input.", metavar="JSON")] = "{}",
    kind: Annotated[str | None, typer.Option("--type", help="The envelope's type. Default: the subject's last word.")] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="idempotency_key: the same one again is applied once. Default: a new one.")
    ] = None,
) -> None:
    """Send a command to an agent, and wait until it is stored. Exit status: 0 stored (or stored before), 1 refused, 3 no stream took it.

    The agent creates its streams, so start it first.

    Example:  router agent send ledger.post --payload '{"account": "acme", "amount": 250}'
    """
    from router.agents.sending import command_of, subject_of
    from router.contracts.headers import MESSAGE_ID

    whole = subject_of(subject, make_places(session.settings))
    type_ = kind if kind is not None else whole.rpartition(".")[2]
    made = command_of(whole, type_, read_foreign(payload, "--payload"), key if key is not None else uuid4().hex)
    stored = await (await session.open_jetstream()).publish(made.subject, made.data, {MESSAGE_ID: made.id})
    fields = {"key": made.id, "subject": made.subject, "stream": stored["stream"], "sequence": stored["seq"]}
    is_duplicate = bool(stored.get("duplicate"))
    was_stored = "was stored before" if is_duplicate else "stored"
    text = f"{made.id} {was_stored}: {stored['stream']} {stored['seq']} on {made.subject}"
    session.emit_one({**fields, "duplicate": is_duplicate}, text)
