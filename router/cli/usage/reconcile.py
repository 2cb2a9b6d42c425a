"""`router usage reconcile`: does it add up? Stream, tables and results against one another; for people, and for CI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import ends
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import cell, console, print_json, table
from router.cli.session import settings_of
from router.cli.usage.options import WAREHOUSE, WarehouseAt, an_existing
from router.cli.usage.source import reading

if TYPE_CHECKING:
    from rich.text import Text

    from router.config import Settings
    from router.lake.reconcile import ReconcileCheck, Reconciliation
    from router.lake.reconcile.ledger import ResultLedger
    from router.lake.warehouse import Warehouse

Offline = Annotated[bool, typer.Option("--offline", help="Only the tables: no broker is asked.")]
NoResults = Annotated[bool, typer.Option("--no-results", help="Leave the workers' results out.")]


def reconcile(
    *,
    warehouse: WarehouseAt = WAREHOUSE,
    offline: Offline = False,
    no_results: NoResults = False,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Compare the stream with bronze, bronze with the tables made of it, silver with gold, and results with usage, exactly.

    What differs is named: sequences, event ids, groups. Exit status: 0 it all agrees, 1 something differs, 3 the broker is away.

    Example:  router usage reconcile --warehouse ./usage --json
    """
    with ends.errors_told():
        found = an_existing(warehouse)
        account = _offline(found) if offline else _with_broker(found, settings_of(nats_url, config), has_results=not no_results)
        if as_json:
            print_json(account.to_json())
        else:
            _show(account)
    raise typer.Exit(ends.OK if account.is_right else ends.NO)


def _offline(found: Warehouse) -> Reconciliation:
    from router.lake.reconcile import reconcile as compare

    return compare(found)


def _with_broker(found: Warehouse, settings: Settings, *, has_results: bool) -> Reconciliation:
    from rich.console import Console

    from router.lake.reconcile import reconcile as compare
    from router.lake.reconcile.stream import open_stream

    ledger = _ledger(settings) if has_results else None
    stream = open_stream(reading(settings.nats, settings.streams.usage.name))
    with Console(stderr=True).status("") as status:
        return compare(found, stream, ledger, lambda what: status.update(f"comparing {what}"))


def _ledger(settings: Settings) -> ResultLedger | None:
    """None where nobody has ever sent a result."""
    from router.errors import Misconfigured
    from router.lake.reconcile.ledger import open_ledger

    streams, nats = settings.streams, settings.nats
    results, usage, letters = (
        reading(nats, stream.name, has_headers=stream is streams.results) for stream in (streams.results, streams.usage, streams.dlq)
    )
    try:
        return open_ledger(results, usage, letters, settings.results.durable)
    except Misconfigured:
        return None


def _show(account: Reconciliation) -> None:
    console().print(table(("check", "verdict", "found"), ((check.name, _verdict(check), check.says) for check in account.checks)))
    for check in account.checks:
        if check.ids:
            console().print(cell(f"{check.name}: {', '.join(check.ids)}"))
    print("it all agrees" if account.is_right else "something differs")


def _verdict(check: ReconcileCheck) -> Text:
    from rich.text import Text

    return Text(check.verdict, style={True: "green", False: "bold red", None: "dim"}[check.is_right])
