"""`router agent send`: publish a command or an event to an agent's subject."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import exit_codes
from router.cli.agent.run import make_places
from router.cli.option_values import read_json
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import print_json
from router.cli.session import load_settings, open_jetstream

if TYPE_CHECKING:
    from router.config import Settings
    from router.core.message import Effect


def send(
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="ledger.post, or a whole subject: cmd.shop.orders.pay, evt.….")],
    *,
    payload: Annotated[str, typer.Option(help="Any JSON value; @FILE reads a file, - standard input.", metavar="JSON")] = "{}",
    kind: Annotated[str | None, typer.Option("--type", help="The envelope's type. Default: the subject's last word.")] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="idempotency_key: the same one again is applied once. Default: a new one.")
    ] = None,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Send a command to an agent, and wait until it is stored. Exit status: 0 stored (or stored before), 1 refused, 3 no stream took it.

    The agent creates its streams, so start it first.

    Example:  router agent send ledger.post --payload '{"account": "acme", "amount": 250}'
    """
    from uuid import uuid4

    from router.runtime.sending import command_of, subject_of

    with exit_codes.report_errors():
        settings = load_settings(nats_url, config)
        whole = subject_of(subject, make_places(settings))
        content = read_json(payload, "--payload")
        made = command_of(whole, kind if kind is not None else whole.rpartition(".")[2], content, key if key is not None else uuid4().hex)
    exit_codes.run(_send(settings, made, as_json))


async def _send(settings: Settings, made: Effect, as_json: bool) -> int:
    from router.contracts.headers import MESSAGE_ID

    async with open_jetstream(settings) as jetstream:
        stored = await jetstream.publish(made.subject, made.data, {MESSAGE_ID: made.id})
    fields = {"key": made.id, "subject": made.subject, "stream": stored["stream"], "sequence": stored["seq"]}
    is_duplicate = bool(stored.get("duplicate"))
    if as_json:
        print_json({**fields, "duplicate": is_duplicate})
    else:
        was_stored = "was stored before" if is_duplicate else "stored"
        print(f"{made.id} {was_stored}: {stored['stream']} {stored['seq']} on {made.subject}")
    return exit_codes.OK
