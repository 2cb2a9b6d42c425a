"""`router agent replay`: a store's events applied again, from nothing; the same hashes, or the agent is not deterministic."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import ends
from router.cli.agent.loaded import StoreFile, Target, agent_at
from router.cli.options import AsJson
from router.cli.output import print_json, print_table, progress

if TYPE_CHECKING:
    from router.runtime.adapter import AgentAdapter
    from router.runtime.replay import ReplayResult


def replay(
    target: Target,
    *,
    store: StoreFile,
    into: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the fresh store here. Default: it is thrown away.", dir_okay=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Apply a store's events to a fresh one and compare. Nothing is published. Exit status: 0 the same, 1 not.

    Example:  router agent replay router.samples.agents.ledger:Ledger --store ledger.db
    """
    with ends.errors_told():
        result = _replayed(agent_at(target), store, into, as_json)
        stored, replayed = result.stored, result.replayed
        names = ("events", "state", "log", "effects")
        if as_json:
            print_json({"same": result.is_same, **{name: getattr(replayed, name) for name in names}})
        else:
            rows = ((name, getattr(stored, name), getattr(replayed, name), _verdict(stored, replayed, name)) for name in names)
            print_table(("hash", "stored", "replayed", "verdict"), rows)
        raise typer.Exit(ends.OK if result.is_same else ends.NO)


def _replayed(adapter: AgentAdapter, store: Path, into: Path | None, is_quiet: bool) -> ReplayResult:
    from router.runtime.replay import replay as apply_again

    with tempfile.TemporaryDirectory(prefix="router-replay-") as home, progress("replaying", is_quiet=is_quiet) as told:
        return apply_again(adapter, store, into or Path(home) / "fresh.db", told)


def _verdict(stored: object, replayed: object, name: str) -> str:
    return "ok" if getattr(stored, name) == getattr(replayed, name) else "fail"
