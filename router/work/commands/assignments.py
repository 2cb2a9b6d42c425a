"""`router assignments`: which assignments were pushed to workers, their status, and one whole."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from router.contracts.exact_json import dump_json, load_written
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.output import build_grid, build_heading, build_panel, format_bytes, open_console
from router.work.assignments import StoredAssignment, find_assignment, list_assignments
from router.work.views import make_assignments_view

ASSIGNMENT_STATUSES = ("accepted", "rejected", "error", "unacknowledged")


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
    assignments = [
        stored
        async for stored in list_assignments(
            jetstream, bucket, tenant=tenant, status=status, limit=limit
        )
    ]
    session.emit(
        assignments,
        make_assignments_view(reads_acknowledgements=settings.acks.enabled),
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
    stored = await find_assignment(await session.open_jetstream(), bucket.name, assignment_id)
    if stored is None:
        return exit_codes.refuse(
            f"no assignment {assignment_id} in {bucket.name}, which keeps them for "
            f"{bucket.ttl_ms / 3_600_000:g} h"
        )
    status = stored.known_status(reads_acknowledgements=settings.acks.enabled)
    whole = {
        "subject": stored.record.subject,
        "assignment": load_written(bytes(stored.record.assignment)),
    }
    session.emit_one(
        {**stored.list_fields(reads_acknowledgements=settings.acks.enabled), **whole},
        lambda: print_assignment(stored, status),
    )
    return exit_codes.OK


Facts = Iterable[tuple[str, object]]


def print_assignment(stored: StoredAssignment, status: str | None) -> None:
    """Print the whole assignment in a frame. `status`: None if the router does not listen for
    acknowledgements.
    """
    work = load_written(bytes(stored.record.assignment))
    parts: list[RenderableType] = [
        build_grid(_list_request(stored, status)),
        build_heading("decision"),
        build_grid(_list_decision(stored)),
    ]
    parts += [build_heading("work"), Text(format_bytes(dump_json(work.get("job"))))]
    if stored.acknowledgement is not None:
        parts += [build_heading("worker"), build_grid(_list_acknowledgement(stored))]
    open_console().print(build_panel(f"assignment {stored.assignment.assignment_id}", parts))


def _list_request(stored: StoredAssignment, status: str | None) -> Facts:
    assignment = stored.assignment
    yield "tenant", assignment.tenant_id
    yield "request", assignment.request_id
    yield "trace", assignment.trace_id
    yield "pushed", f"{stored.stored_at} to {stored.record.subject}"
    yield "deadline", f"{assignment.deadline_ms} ms"
    yield "status", status


def _list_decision(stored: StoredAssignment) -> Facts:
    decision = stored.assignment.decision
    yield "provider", decision.provider_id
    yield "reason", decision.reason
    yield "expected", f"{decision.expected_latency_ms:g} ms, cost {decision.expected_cost:g}"
    yield from decision.metadata.items()


def _list_acknowledgement(stored: StoredAssignment) -> Facts:
    if stored.acknowledgement is not None:
        yield "status", stored.acknowledgement.status
        yield "message", stored.acknowledgement.message
        yield "at", datetime.fromtimestamp(stored.acknowledgement.at_ms / 1000, UTC).isoformat()
