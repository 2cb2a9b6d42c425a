"""`router agent hash`, `events`, `state`, `verify` and `replay`: read a store, also while an agent works on it; apply its events again."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command, skip_settings
from router.shell.import_target import AgentTarget, StoreFile, import_agent
from router.shell.output import build_grid, format_json, open_console, print_table, show_progress

if TYPE_CHECKING:
    from router.agents.replay import ReplayResult

VALUE_WIDTH = 200  # characters of a value in a table
COLUMNS = ("place", "stream", "seq", "type", "key", "status", "attempts", "sent", "unsent")
HASHES = ("events", "state", "log", "effects")


@command(skip_settings)
def hash_(session: CommandSession, store: StoreFile) -> None:
    """Print a store's hashes: of its events by stream and sequence, by arrival, and of what applying them changed.

    Example:  router agent hash --store ledger.db
    """
    from msgspec.structs import asdict

    from router.agents.database import open_read_only
    from router.agents.hashes import hashes_of

    with open_read_only(store) as db:
        found = asdict(hashes_of(db))
    session.emit_one(found, lambda: open_console().print(build_grid(found.items())))


@command(skip_settings)
def events(
    session: CommandSession,
    store: StoreFile,
    *,
    status: Annotated[str | None, typer.Option(help="Only received, applied or dead ones.")] = None,
    key: Annotated[str | None, typer.Option(help="Only the event of this idempotency key.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many, the newest first.", min=1)] = 50,
) -> None:
    """List a store's events, the newest first; with --json one object a line, its content included. Exit status 0, also for none.

    Example:  router agent events --store ledger.db --status received
    """
    from router.agents.listing import EventFilter, list_newest_events

    session.emit(
        list_newest_events(store, EventFilter(status, key), limit),
        COLUMNS,
        lambda e: (e.place, e.stream, e.stream_seq, e.type, e.key, e.status, e.attempts, e.sent, e.unsent),
        lambda e: e.to_json(),
        empty="no events",
    )


@command(skip_settings)
def state(
    session: CommandSession,
    store: StoreFile,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Only the value of this name.")] = None,
    *,
    prefix: Annotated[str | None, typer.Option(help="Only names that begin so.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many, by name.", min=1)] = 50,
) -> int:
    """Show an agent's state; with --json one object a line, values whole. Exit status: 0, or 1 for a NAME that is not there.

    Example:  router agent state --store ledger.db --prefix balance:
    """
    from msgspec.structs import asdict

    from router.agents.state import list_state_entries
    from router.core.masking import shorten

    found = list_state_entries(store, name=name, prefix=prefix, limit=limit)
    session.emit(
        found,
        ("agent", "name", "value"),
        lambda one: (one.agent, one.name, shorten(format_json(one.value), VALUE_WIDTH)),
        asdict,
        empty="nothing is remembered" if name is None and prefix is None else "nothing of that name is remembered",
    )
    return exit_codes.OK if found or name is None else exit_codes.NO


@command(skip_settings)
def verify(session: CommandSession, store: StoreFile) -> int:
    """Check a store: complete, nothing missing, nothing waiting. It reads every page. Exit status: 0 fine, 1 something is broken.

    Example:  router agent verify --store ledger.db
    """
    from router.agents.verify import FAIL
    from router.agents.verify import verify as look_over

    findings = look_over(store)
    session.emit(findings, ("check", "verdict", "detail"), lambda one: (one.name, one.verdict, one.detail), empty="")
    return exit_codes.NO if any(one.verdict == FAIL for one in findings) else exit_codes.OK


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
    from router.agents.replay import replay as apply_again

    adapter = import_agent(target)
    with tempfile.TemporaryDirectory(prefix="router-replay-") as home, show_progress("replaying", is_quiet=session.as_json) as advance:
        result = apply_again(adapter, store, into or Path(home) / "fresh.db", advance)
    session.emit_one({"same": result.is_same, **{name: getattr(result.replayed, name) for name in HASHES}}, lambda: _print_hashes(result))
    return exit_codes.OK if result.is_same else exit_codes.NO


def _print_hashes(result: ReplayResult) -> None:
    pairs = ((name, getattr(result.stored, name), getattr(result.replayed, name)) for name in HASHES)
    rows = ((name, stored, replayed, "ok" if stored == replayed else "fail") for name, stored, replayed in pairs)
    print_table(("hash", "stored", "replayed", "verdict"), rows)
