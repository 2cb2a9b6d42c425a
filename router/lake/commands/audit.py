"""`router usage audit`: look at all of silver for identities that count more than once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from router.lake.commands.command import warehouse_command
from router.lake.commands.options import WAREHOUSE, Master, WarehouseAt, open_spark, open_warehouse
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, skip_settings
from router.shell.output import build_grid, build_table, open_console

if TYPE_CHECKING:
    from router.lake.reconcile.audit import AuditFound


@warehouse_command(skip_settings)
def audit(session: CommandSession, *, master: Master = None, warehouse: WarehouseAt = WAREHOUSE) -> int:
    """Find identities that count more than once: an ingest finds duplicates within the stream's retention, this job any.

    Each one is named with its sequences and days. Exit status: 0 none counts twice, 1 some do.

    Example:  router usage audit --json
    """
    at = open_warehouse(warehouse)
    with open_spark(master) as spark:
        from router.lake.reconcile.audit import audit as count

        found = count(spark, at)
    session.emit_one(found.to_json(), lambda: _print_found(found))
    return exit_codes.OK if found.is_right else exit_codes.NO


def _print_found(found: AuditFound) -> None:
    figures = {name: value for name, value in found.to_json().items() if name != "first"}
    open_console().print(build_grid((name.replace("_", " "), value) for name, value in figures.items()))
    if found.first:
        rows = ((one.event_id, ", ".join(map(str, one.sequences)), ", ".join(one.days)) for one in found.first)
        open_console().print(build_table(("identity", "sequences", "days"), rows))
