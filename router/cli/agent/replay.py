"""`router agent replay`: apply a store's events again to an empty store; other hashes mean that the agent is not deterministic."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import exit_codes
from router.cli.agent.import_agent import StoreFile, Target, import_agent
from router.cli.options import AsJson
from router.cli.output import print_json, print_table, show_progress

if TYPE_CHECKING:
    from router.runtime.adapter import AgentAdapter
    from router.runtime.replay import ReplayResult


def replay(
    target: Target,
    *,
    store: StoreFile,
    into: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the fresh store here. Default: it is deleted.", dir_okay=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Apply a store's events to a fresh one and compare. Nothing is published. Exit status: 0 the same, 1 not.

    Example:  router agent replay router.sdk.samples.agents.ledger:Ledger --store ledger.db
    """
    with exit_codes.report_errors():
        result = _replay(import_agent(target), store, into, as_json)
        stored, replayed = result.stored, result.replayed
        names = ("events", "state", "log", "effects")
        if as_json:
            print_json({"same": result.is_same, **{name: getattr(replayed, name) for name in names}})
        else:
            rows = ((name, getattr(stored, name), getattr(replayed, name), _compare(stored, replayed, name)) for name in names)
            print_table(("hash", "stored", "replayed", "verdict"), rows)
        raise typer.Exit(exit_codes.OK if result.is_same else exit_codes.NO)


def _replay(adapter: AgentAdapter, store: Path, into: Path | None, is_quiet: bool) -> ReplayResult:
    from router.runtime.replay import replay as apply_again

    with tempfile.TemporaryDirectory(prefix="router-replay-") as home, show_progress("replaying", is_quiet=is_quiet) as advance:
        return apply_again(adapter, store, into or Path(home) / "fresh.db", advance)


def _compare(stored: object, replayed: object, name: str) -> str:
    return "ok" if getattr(stored, name) == getattr(replayed, name) else "fail"
