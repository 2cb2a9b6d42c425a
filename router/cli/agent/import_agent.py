"""Import an agent from its author's module; and the option that names its store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli.import_target import import_function
from router.core.errors import Misconfigured

if TYPE_CHECKING:
    from router.runtime.adapter import AgentAdapter

Target = Annotated[str, typer.Argument(metavar="MODULE:AGENT", help="A class, or a function that makes an agent.")]
StoreFile = Annotated[Path, typer.Option("--store", metavar="FILE", help="The agent's event store.", dir_okay=False)]


def import_agent(target: str) -> AgentAdapter:
    """Return the agent that `module:name` makes without arguments. Raises Misconfigured."""
    from router.runtime.adapter import AgentAdapter

    make = import_function(target, "my_package.agents:Ledger")
    try:
        made = make()
    except Exception as exc:  # a user's code may raise anything
        raise Misconfigured("MODULE:AGENT", f"{target} cannot be made: {type(exc).__name__}: {exc}") from exc
    if not isinstance(made, AgentAdapter):
        raise Misconfigured("MODULE:AGENT", f"{target} is no agent: it needs a name, receive(envelope) and apply(ctx, envelope)")
    return made
