"""`router bus`: SOLVER-Ralph's envelope bus from the command line."""

from __future__ import annotations

import typer

from router.cli.bus.drain import check_drain
from router.cli.bus.publish import publish
from router.cli.bus.tail import tail
from router.cli.bus.topology import schema, topology

bus = typer.Typer(
    no_args_is_help=True,
    help="The envelope bus: events and commands published, watched; its streams, its schema.",
    rich_markup_mode="rich",
)

for command in (publish, tail, topology, schema):
    bus.command()(command)
bus.command("check-drain")(check_drain)
