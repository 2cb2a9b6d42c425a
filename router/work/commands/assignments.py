"""`router assignments`: which assignments were pushed to workers, and their status."""

from __future__ import annotations

from typing import Annotated

import typer

from router.config import Settings
from router.contracts.exact_json import load_written
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.formatting import format_time
from router.work.assignments import StoredAssignment, find_assignment, list_assignments
from router.work.commands.assignment import print_assignment

ASSIGNMENT_STATUSES = ("accepted", "rejected", "error", "unacknowledged")
COLUMNS = ("assignment", "pushed", "tenant", "job", "provider", "status", "said")


@command()
async def list_(
    session: CommandSession,
    context: typer.Context,
    *,
    tenant: Annotated[str | None, typer.Option(help="Only of this tenant.")] = None,
    status: Annotated[
        str | None, typer.Option(help=f"Only these: {', '.join(ASSIGNMENT_STATUSES)}.")
    ] = None,
    limit: Annotated[int, typer.Option(help="At most so many, the newest first.", min=1)] = 50,
) -> None:
    """List assignments of the last day, the newest first; with --json one object a line. `show ID`
    shows one whole.

    A status is what a worker last acknowledged. Acknowledgements are read when acks.enabled is set,
    which it is not by default: while it is off, no status is shown. Exit status 0.

    Example:  router assignments --tenant acme --status rejected
    """
    if context.invoked_subcommand is not None:
        return
    if status is not None and status not in ASSIGNMENT_STATUSES:
        raise typer.BadParameter(
            f"{status!r} is none of {', '.join(ASSIGNMENT_STATUSES)}", param_hint="--status"
        )
    settings, jetstream = session.settings, await session.open_jetstream()
    bucket = settings.buckets.assignments_known.name
    found = [
        one
        async for one in list_assignments(
            jetstream, bucket, tenant=tenant, status=status, limit=limit
        )
    ]
    session.emit(
        found,
        COLUMNS,
        lambda one: _build_row(one, settings),
        lambda one: _list_fields(one, settings),
        empty="no assignments",
    )


@command()
async def show(
    session: CommandSession,
    assignment_id: Annotated[str, typer.Argument(metavar="ID", help="The assignment's id.")],
) -> int:
    """Show one assignment whole: the decision, the work, the acknowledgement. Exit status: 0 shown,
    1 it is not known.

    Example:  router assignments show 0d3f6a5e-58a5-5b6f-9a7c-3a2f6c7d8e9f
    """
    settings, bucket = session.settings, session.settings.buckets.assignments_known
    found = await find_assignment(await session.open_jetstream(), bucket.name, assignment_id)
    if found is None:
        return exit_codes.refuse(
            f"no assignment {assignment_id} in {bucket.name}, which keeps them for "
            f"{bucket.ttl_ms / 3_600_000:g} h"
        )
    status = found.known_status(reads_acks=settings.acks.enabled)
    whole = {
        "subject": found.record.subject,
        "assignment": load_written(bytes(found.record.assignment)),
    }
    session.emit_one(
        {**_list_fields(found, settings), **whole}, lambda: print_assignment(found, status)
    )
    return exit_codes.OK


def _build_row(one: StoredAssignment, settings: Settings) -> tuple[object, ...]:
    known, said = one.known, one.ack.message if one.ack is not None else None
    pushed, status = format_time(one.stored_at), one.known_status(reads_acks=settings.acks.enabled)
    return (
        known.assignment_id,
        pushed,
        known.tenant_id,
        known.job_type,
        known.provider_id,
        status,
        said,
    )


def _list_fields(one: StoredAssignment, settings: Settings) -> dict[str, object]:
    return one.list_fields(reads_acks=settings.acks.enabled)
