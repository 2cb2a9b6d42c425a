"""`router usage schema` and `compact`: print the tables and their columns; merge their small files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from router.cli.command import CommandSession, command, skip_settings
from router.cli.output import build_heading, build_table, open_console
from router.cli.usage.options import WAREHOUSE, WarehouseAt, open_warehouse

Only = Annotated[str | None, typer.Argument(metavar="TABLE", help="One table. Default: all.")]
AtLeast = Annotated[int, typer.Option(metavar="N", help="Only days with at least N files in a table.", min=2)]


@command(skip_settings)
def schema(session: CommandSession, name: Only = None) -> None:
    """Print the tables' columns and types. `day` is the directory a file lies in, and in no file.

    Example:  router usage schema silver
    """
    from router.core.errors import Misconfigured
    from router.lake.tables.schemas import TABLE_DESCRIPTIONS, list_columns

    if name is not None and name not in TABLE_DESCRIPTIONS:
        raise Misconfigured("TABLE", f"{name!r} is none of {', '.join(TABLE_DESCRIPTIONS)}")
    columns = {one: list_columns(one) for one in ([name] if name is not None else TABLE_DESCRIPTIONS)}
    fields = {one: {"about": TABLE_DESCRIPTIONS[one], "columns": dict(columns[one])} for one in columns}
    session.emit_one(fields, lambda: _print_columns(columns))


@command(skip_settings)
def compact(session: CommandSession, at_least: AtLeast = 8, warehouse: WarehouseAt = WAREHOUSE) -> None:
    """Merge files: fewer files, the same rows. Reads as of an earlier commit keep working: no committed file is removed.

    Example:  router usage compact --at-least 4
    """
    at = open_warehouse(warehouse)
    from router.lake.jobs import compact as job

    made = job.compact(at, at_least=at_least)
    swept = job.sweep(at)
    added, removed = (sum(map(len, files.values())) for files in ((made.add, made.remove) if made is not None else ({}, {})))
    fields = {"files_before": removed, "files_after": added, "leftovers_removed": len(swept)}
    session.emit_one(fields, f"{removed} files became {added}; {len(swept)} leftovers removed")


def _print_columns(columns: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    from router.lake.tables.schemas import TABLE_DESCRIPTIONS

    for name, pairs in columns.items():
        open_console().print(build_heading(f"{name}: {TABLE_DESCRIPTIONS[name]}"), build_table(("column", "type"), pairs))
