"""`router agent hash`, `events`, `state` and `verify`: read a store, also while an agent works on it."""

from __future__ import annotations

from typing import Annotated

import typer

from router.cli import exit_codes
from router.cli.agent.import_agent import StoreFile
from router.cli.options import AsJson
from router.cli.output import build_grid, format_json, open_console, print_json, print_lines, print_records, print_table

VALUE_WIDTH = 200  # characters of a value in a table
COLUMNS = ("place", "stream", "seq", "type", "key", "status", "attempts", "sent", "unsent")


def hash_(store: StoreFile, as_json: AsJson = False) -> None:
    """Print a store's hashes: of its events by stream and sequence, by arrival, and of what applying them changed.

    Example:  router agent hash --store ledger.db
    """
    from msgspec.structs import asdict

    from router.runtime.database import open_read_only
    from router.runtime.hashes import hashes_of

    with exit_codes.report_errors():
        with open_read_only(store) as db:
            found = asdict(hashes_of(db))
        if as_json:
            print_json(found)
        else:
            open_console().print(build_grid(found.items()))


def events(
    store: StoreFile,
    *,
    status: Annotated[str | None, typer.Option(help="Only received, applied or dead ones.")] = None,
    key: Annotated[str | None, typer.Option(help="Only the event of this idempotency key.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many, the newest first.", min=1)] = 50,
    as_json: AsJson = False,
) -> None:
    """List a store's events, the newest first; with --json one object a line, its content included. Exit status 0, also for none.

    Example:  router agent events --store ledger.db --status received
    """
    from router.runtime.listing import EventFilter, list_newest_events

    with exit_codes.report_errors():
        found = list_newest_events(store, EventFilter(status, key), limit)
        print_records(
            (one.to_json() for one in found),
            COLUMNS,
            ((e.place, e.stream, e.stream_seq, e.type, e.key, e.status, e.attempts, e.sent, e.unsent) for e in found),
            empty="no events",
            as_json=as_json,
        )


def state(
    store: StoreFile,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Only the value of this name.")] = None,
    *,
    prefix: Annotated[str | None, typer.Option(help="Only names that begin so.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many, by name.", min=1)] = 50,
    as_json: AsJson = False,
) -> None:
    """Show an agent's state; with --json one object a line, values whole. Exit status: 0, or 1 for a NAME that is not there.

    Example:  router agent state --store ledger.db --prefix balance:
    """
    from msgspec.structs import asdict

    from router.core.masking import shorten
    from router.runtime.state_entries import list_state_entries

    with exit_codes.report_errors():
        found = list_state_entries(store, name=name, prefix=prefix, limit=limit)
        print_records(
            (asdict(one) for one in found),
            ("agent", "name", "value"),
            ((one.agent, one.name, shorten(format_json(one.value), VALUE_WIDTH)) for one in found),
            empty="nothing is remembered" if name is None and prefix is None else "nothing of that name is remembered",
            as_json=as_json,
        )
        raise typer.Exit(exit_codes.OK if found or name is None else exit_codes.NO)


def verify(store: StoreFile, as_json: AsJson = False) -> None:
    """Check a store: complete, nothing missing, nothing waiting. It reads every page. Exit status: 0 fine, 1 something is broken.

    Example:  router agent verify --store ledger.db
    """
    from msgspec.structs import asdict

    from router.runtime.verify import FAIL
    from router.runtime.verify import verify as look_over

    with exit_codes.report_errors():
        findings = look_over(store)
        if as_json:
            print_lines(asdict(one) for one in findings)
        else:
            print_table(("check", "verdict", "detail"), ((one.name, one.verdict, one.detail) for one in findings))
        raise typer.Exit(exit_codes.NO if any(one.verdict == FAIL for one in findings) else exit_codes.OK)
