"""`router outbox`: publish what a service committed; list what is left and what cannot be published."""

from __future__ import annotations

import typer

from router.cli.outbox.list_requeue import backlog, list_parked, requeue
from router.cli.outbox.relay import relay

outbox = typer.Typer(no_args_is_help=True, help="The outbox: publish it, inspect it, repair it.", rich_markup_mode="rich")

outbox.command()(relay)
outbox.command()(backlog)
outbox.command("parked")(list_parked)
outbox.command()(requeue)
