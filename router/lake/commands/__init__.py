"""`router usage`: the usage stream into tables, and reports from the tables."""

from __future__ import annotations

import typer

from router.lake.commands.adjust import adjust
from router.lake.commands.audit import audit
from router.lake.commands.backfill import backfill
from router.lake.commands.erase import erase
from router.lake.commands.export import export
from router.lake.commands.generate import generate
from router.lake.commands.held import held
from router.lake.commands.ingest import ingest
from router.lake.commands.reconcile import reconcile
from router.lake.commands.report import report
from router.lake.commands.retention import retention
from router.lake.commands.seal import seal
from router.lake.commands.tables import compact, schema, vacuum

usage = typer.Typer(no_args_is_help=True, help="Usage: the stream into tables, reports from them, exact sums.", rich_markup_mode="rich")

usage.add_typer(held, name="held")
for command in (ingest, report, export, adjust, reconcile, audit, seal, backfill, compact, vacuum, erase, retention, schema, generate):
    usage.command()(command)
