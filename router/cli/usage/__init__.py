"""`router usage`: the usage stream into tables, and reports from the tables."""

from __future__ import annotations

import typer

from router.cli.usage.adjust import adjust
from router.cli.usage.audit import audit
from router.cli.usage.backfill import backfill
from router.cli.usage.erase import erase
from router.cli.usage.export import export
from router.cli.usage.generate import generate
from router.cli.usage.held import held
from router.cli.usage.ingest import ingest
from router.cli.usage.reconcile import reconcile
from router.cli.usage.report import report
from router.cli.usage.retention import retention
from router.cli.usage.seal import seal
from router.cli.usage.tables import compact, schema, vacuum

usage = typer.Typer(no_args_is_help=True, help="Usage: the stream into tables, reports from them, exact sums.", rich_markup_mode="rich")

usage.add_typer(held, name="held")
for command in (ingest, report, export, adjust, reconcile, audit, seal, backfill, compact, vacuum, erase, retention, schema, generate):
    usage.command()(command)
