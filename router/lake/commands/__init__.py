"""`router usage`: the usage stream into tables, and reports from the tables."""

from __future__ import annotations

import typer

from router.lake.commands.adjust import adjust
from router.lake.commands.generate import generate
from router.lake.commands.held import held
from router.lake.commands.ingest import ingest
from router.lake.commands.reconcile import audit, reconcile
from router.lake.commands.report import export, report
from router.lake.commands.retention import erase, retention, seal
from router.lake.commands.tables import backfill, compact, schema, vacuum

usage = typer.Typer(
    no_args_is_help=True,
    help="Usage: the stream into tables, reports from them, exact sums.",
    rich_markup_mode="rich",
)

usage.add_typer(held, name="held")
for command in (
    ingest,
    report,
    export,
    adjust,
    reconcile,
    audit,
    seal,
    backfill,
    compact,
    vacuum,
    erase,
    retention,
    schema,
    generate,
):
    usage.command()(command)
