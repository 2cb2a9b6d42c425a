"""`router agent`: run MeshForge's agents, and inspect their stores."""

from __future__ import annotations

import typer

from router.agents.commands.inspect_store import events, hash_, replay, state, verify
from router.agents.commands.run import run
from router.agents.commands.send import send

agent = typer.Typer(help="Agents whose effects happen once: run them, inspect their stores, replay them.", no_args_is_help=True)
agent.command()(run)
agent.command()(send)
agent.command("hash")(hash_)
agent.command()(replay)
agent.command()(events)
agent.command()(state)
agent.command()(verify)
