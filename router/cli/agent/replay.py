"""`router agent replay`: apply a store's events again to an empty store; other hashes mean that the agent is not deterministic."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import exit_codes
from router.cli.command import CommandSession, command, skip_settings
from router.cli.import_target import AgentTarget, StoreFile, import_agent
from router.cli.output import print_table, show_progress

if TYPE_CHECKING:
    from router.runtime.replay import ReplayResult

HASHES = ("events", "state", "log", "effects")


@command(skip_settings)
def replay(
    session: CommandSession,
    target: AgentTarget,
    *,
    store: StoreFile,
    into: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the fresh store here. Default: it is deleted.", dir_okay=False)
    ] = None,
) -> int:
    """Apply a store's events to a fresh one and compare. Nothing is published. Exit status: 0 the same, 1 not.

    Example:  router agent replay router.sdk.samples.agents.ledger:Ledger --store ledger.db
    """
    from router.runtime.replay import replay as apply_again

    adapter = import_agent(target)
    with tempfile.TemporaryDirectory(prefix="router-replay-") as home, show_progress("replaying", is_quiet=session.as_json) as advance:
        result = apply_again(adapter, store, into or Path(home) / "fresh.db", advance)
    session.emit_one({"same": result.is_same, **{name: getattr(result.replayed, name) for name in HASHES}}, lambda: _print_hashes(result))
    return exit_codes.OK if result.is_same else exit_codes.NO


def _print_hashes(result: ReplayResult) -> None:
    pairs = ((name, getattr(result.stored, name), getattr(result.replayed, name)) for name in HASHES)
    rows = ((name, stored, replayed, "ok" if stored == replayed else "fail") for name, stored, replayed in pairs)
    print_table(("hash", "stored", "replayed", "verdict"), rows)
