"""`router usage compact`: merge small files into one for each day, and delete what dead jobs left."""

from __future__ import annotations

from typing import Annotated

import typer

from router.cli import exit_codes
from router.cli.options import AsJson
from router.cli.output import print_json
from router.cli.usage.options import WAREHOUSE, WarehouseAt, open_warehouse

AtLeast = Annotated[int, typer.Option(metavar="N", help="Only days with at least N files in a table.", min=2)]


def compact(at_least: AtLeast = 8, warehouse: WarehouseAt = WAREHOUSE, as_json: AsJson = False) -> None:
    """Merge files: fewer files, the same rows. Reads as of an earlier commit keep working: no committed file is removed.

    Example:  router usage compact --at-least 4
    """
    with exit_codes.report_errors():
        at = open_warehouse(warehouse)
        from router.lake.jobs import compact as job

        made = job.compact(at, at_least=at_least)
        swept = job.sweep(at)
    added = sum(map(len, made.add.values())) if made is not None else 0
    removed = sum(map(len, made.remove.values())) if made is not None else 0
    if as_json:
        print_json({"files_before": removed, "files_after": added, "leftovers_removed": len(swept)})
    else:
        print(f"{removed} files became {added}; {len(swept)} leftovers removed")
