"""`router usage audit` and `reconcile`: for people, and for CI.

audit         look at all of silver for identities that count more than once
reconcile     compare stream, tables and results with one another
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from router.budgets.spent_documents import BudgetSum
from router.config import Settings
from router.core.errors import BrokerUnavailable, Misconfigured
from router.lake.commands.command import (
    WAREHOUSE,
    Master,
    WarehouseAt,
    open_spark,
    open_warehouse,
    warehouse_command,
)
from router.lake.commands.ingest import read_source_options
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, skip_settings
from router.shell.output import build_cell, build_table, open_console, print_fields

if TYPE_CHECKING:
    from router.lake.reconcile import ReconcileCheck, Reconciliation
    from router.lake.reconcile.audit import AuditFound
    from router.lake.reconcile.results import ResultStreams
    from router.lake.reconcile.stream import OpenStream
    from router.lake.warehouse import Warehouse

# -- `router usage reconcile`.

Offline = Annotated[bool, typer.Option("--offline", help="Only the tables: no broker is asked.")]
NoResults = Annotated[
    bool, typer.Option("--no-results", help="Do not compare the workers' results.")
]


@warehouse_command()
def reconcile(
    session: CommandSession,
    *,
    warehouse: WarehouseAt = WAREHOUSE,
    offline: Offline = False,
    no_results: NoResults = False,
    master: Master = None,
) -> int:
    """Compare the stream, bronze, the tables made of it, gold, results, and what is settled of
    budgets, exactly, by Spark.

    Each difference is named: sequences, event ids, groups. Exit status: 0 all agree, 1 something
    differs, 3 no broker answers.

    Example:  router usage reconcile --warehouse ./usage --json
    """
    opened = open_warehouse(warehouse)
    stream, streams = (
        (None, None) if offline else _open_streams(session.settings, has_results=not no_results)
    )
    budget_sums = None if offline else _read_booked(session.settings)
    account = _compare(opened, stream, streams, budget_sums, master)
    session.emit_one(account.to_json(), lambda: _print_checks(account))
    return exit_codes.OK if account.is_right else exit_codes.NO


def _open_streams(
    settings: Settings, *, has_results: bool
) -> tuple[OpenStream, ResultStreams | None]:
    """Open the streams before Spark starts, so that a missing or wrong broker is reported at once."""
    from router.lake.reconcile.stream import open_stream

    streams = _open_result_streams(settings) if has_results else None
    return open_stream(read_source_options(settings.nats, settings.streams.usage.name)), streams


def _compare(
    opened: Warehouse,
    stream: OpenStream | None,
    streams: ResultStreams | None,
    budget_sums: Sequence[BudgetSum] | None,
    master: str | None,
) -> Reconciliation:
    with open_spark(master) as spark, Console(stderr=True).status("") as status:
        from router.lake.reconcile import reconcile as compare

        return compare(
            spark,
            opened,
            stream,
            streams,
            budget_sums=budget_sums,
            on_check=lambda what: status.update(f"comparing {what}"),
        )


def _open_result_streams(settings: Settings) -> ResultStreams | None:
    """Open the streams of results; None if there is no such stream."""
    from router.lake.reconcile.results import open_result_streams

    streams, nats = settings.streams, settings.nats
    results, usage, dead_letters = (
        read_source_options(nats, stream.name, has_headers=stream is streams.results)
        for stream in (streams.results, streams.usage, streams.dlq)
    )
    try:
        return open_result_streams(results, usage, dead_letters, settings.results.durable)
    except Misconfigured:
        return None


def _read_booked(settings: Settings) -> Sequence[BudgetSum] | None:
    """None: this account has no budgets, or may not read them."""
    from router.lake.reconcile.budgets import read_sums

    buckets, options = (
        settings.buckets,
        read_source_options(settings.nats, settings.streams.usage.name),
    )
    try:
        return read_sums(options, buckets.budgets.name, buckets.budgets_spent.name)
    except BrokerUnavailable:
        return None


def _print_checks(account: Reconciliation) -> None:
    open_console().print(
        build_table(
            ("check", "verdict", "found"),
            ((check.name, _verdict(check), check.says) for check in account.checks),
        )
    )
    for check in account.checks:
        if check.ids:
            open_console().print(build_cell(f"{check.name}: {', '.join(check.ids)}"))
    print("it all agrees" if account.is_right else "something differs")


def _verdict(check: ReconcileCheck) -> Text:
    return Text(
        check.verdict, style={True: "green", False: "bold red", None: "dim"}[check.is_right]
    )


# -- `router usage audit`.


@warehouse_command(skip_settings)
def audit(
    session: CommandSession, *, master: Master = None, warehouse: WarehouseAt = WAREHOUSE
) -> int:
    """Find identities that count more than once: an ingest finds duplicates within the stream's
    retention, this job any.

    Each one is named with its sequences and days. Exit status: 0 none counts twice, 1 some do.

    Example:  router usage audit --json
    """
    at = open_warehouse(warehouse)
    with open_spark(master) as spark:
        from router.lake.reconcile.audit import audit as count

        audited = count(spark, at)
    session.emit_one(audited.to_json(), lambda: _print_found(audited))
    return exit_codes.OK if audited.is_right else exit_codes.NO


def _print_found(audited: AuditFound) -> None:
    print_fields({name: value for name, value in audited.to_json().items() if name != "first"})
    if audited.first:
        rows = (
            (identity.event_id, ", ".join(map(str, identity.sequences)), ", ".join(identity.days))
            for identity in audited.first
        )
        open_console().print(build_table(("identity", "sequences", "days"), rows))
