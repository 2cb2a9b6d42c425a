"""`router usage schema`: print the tables and their columns."""

from __future__ import annotations

from typing import Annotated

import typer

from router.cli import exit_codes
from router.cli.options import AsJson
from router.cli.output import build_heading, build_table, open_console, print_json

Only = Annotated[str | None, typer.Argument(metavar="TABLE", help="One table. Default: all.")]


def schema(name: Only = None, as_json: AsJson = False) -> None:
    """Print the tables' columns and types. `day` is the directory a file lies in, and in no file.

    Example:  router usage schema silver
    """
    from router.core.errors import Misconfigured
    from router.lake.tables.schemas import TABLE_DESCRIPTIONS, list_columns

    with exit_codes.report_errors():
        if name is not None and name not in TABLE_DESCRIPTIONS:
            raise Misconfigured("TABLE", f"{name!r} is none of {', '.join(TABLE_DESCRIPTIONS)}")
    wanted = [name] if name is not None else list(TABLE_DESCRIPTIONS)
    if as_json:
        print_json({one: {"about": TABLE_DESCRIPTIONS[one], "columns": dict(list_columns(one))} for one in wanted})
        return
    for one in wanted:
        open_console().print(build_heading(f"{one}: {TABLE_DESCRIPTIONS[one]}"), build_table(("column", "type"), list_columns(one)))
