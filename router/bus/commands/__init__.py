"""`router bus`: SOLVER-Ralph's envelope bus from the command line."""

from __future__ import annotations

import typer

from router.bus.commands.drain import check_drain
from router.bus.commands.publish import publish
from router.bus.commands.tail import tail
from router.bus.commands.topology import schema, topology

bus = typer.Typer(
    no_args_is_help=True,
    help="The envelope bus: events and commands published, watched; its streams, its schema.",
    rich_markup_mode="rich",
)

for command in (publish, tail, topology, schema):
    bus.command()(command)
bus.command("check-drain")(check_drain)
