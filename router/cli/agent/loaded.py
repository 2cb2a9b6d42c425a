"""An agent as its author writes it, loaded from a module; and where its store is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli.loaded import function_at
from router.errors import Misconfigured

if TYPE_CHECKING:
    from router.runtime.adapter import AgentAdapter

Target = Annotated[str, typer.Argument(metavar="MODULE:AGENT", help="A class, or a function that makes an agent.")]
StoreFile = Annotated[Path, typer.Option("--store", metavar="FILE", help="The agent's event store.", dir_okay=False)]


def agent_at(target: str) -> AgentAdapter:
    """The agent that `module:name` makes, without arguments. Raises Misconfigured."""
    from router.runtime.adapter import AgentAdapter

    make = function_at(target, "my_package.agents:Ledger")
    try:
        made = make()
    except Exception as exc:  # whatever a stranger's code does
        raise Misconfigured("MODULE:AGENT", f"{target} cannot be made: {type(exc).__name__}: {exc}") from exc
    if not isinstance(made, AgentAdapter):
        raise Misconfigured("MODULE:AGENT", f"{target} is no agent: it needs a name, receive(envelope) and apply(ctx, envelope)")
    return made
