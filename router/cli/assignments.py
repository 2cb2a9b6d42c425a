"""`router assignments`: which assignments were pushed to workers, and their status."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from router.cli import exit_codes
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import print_json, print_records
from router.cli.session import open_jetstream, run_client

if TYPE_CHECKING:
    from router.config import Settings
    from router.delivery.buckets.assignments import StoredAssignment

assignments = typer.Typer(
    invoke_without_command=True, help="Assignments: what was pushed to workers, and their status.", rich_markup_mode="rich"
)

COLUMNS = ("assignment", "pushed", "tenant", "job", "provider", "status", "said")
ASSIGNMENT_STATUSES = ("accepted", "rejected", "error", "unacknowledged")


@assignments.callback()
def list_(
    context: typer.Context,
    *,
    tenant: Annotated[str | None, typer.Option(help="Only of this tenant.")] = None,
    status: Annotated[str | None, typer.Option(help=f"Only these: {', '.join(ASSIGNMENT_STATUSES)}.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many, the newest first.", min=1)] = 50,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """List assignments of the last day, the newest first; with --json one object a line. `show ID` shows one whole.

    A status is what a worker last acknowledged. Acknowledgements are read when acks.enabled is set, which it is not by default:
    while it is off, no status is shown. Exit status 0.

    Example:  router assignments --tenant acme --status rejected
    """
    if context.invoked_subcommand is not None:
        return
    if status is not None and status not in ASSIGNMENT_STATUSES:
        raise typer.BadParameter(f"{status!r} is none of {', '.join(ASSIGNMENT_STATUSES)}", param_hint="--status")
    run_client(nats_url, config, lambda settings: _list(settings, {"tenant": tenant, "status": status, "limit": limit}, as_json))


@assignments.command()
def show(
    assignment_id: Annotated[str, typer.Argument(metavar="ID", help="The assignment's id.")],
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show one assignment whole: the decision, the work, the acknowledgement. Exit status: 0 shown, 1 it is not known.

    Example:  router assignments show 0d3f6a5e-58a5-5b6f-9a7c-3a2f6c7d8e9f
    """
    run_client(nats_url, config, lambda settings: _show(settings, assignment_id, as_json))


async def _list(settings: Settings, wanted: dict[str, Any], as_json: bool) -> int:
    from router.delivery.buckets.assignments import list_assignments

    async with open_jetstream(settings) as jetstream:
        found = [one async for one in list_assignments(jetstream, settings.buckets.assignments_known.name, **wanted)]
    print_records(
        (_fields(one, settings) for one in found), COLUMNS, (_row(one, settings) for one in found), empty="no assignments", as_json=as_json
    )
    return exit_codes.OK


async def _show(settings: Settings, assignment_id: str, as_json: bool) -> int:
    from router.cli.assignment import print_assignment
    from router.delivery.buckets.assignments import find_assignment

    bucket = settings.buckets.assignments_known
    async with open_jetstream(settings) as jetstream:
        found = await find_assignment(jetstream, bucket.name, assignment_id)
    if found is None:
        exit_codes.complain(f"no assignment {assignment_id} in {bucket.name}, which keeps them for {bucket.ttl_ms / 3_600_000:g} h")
        return exit_codes.NO
    if as_json:
        whole = {"subject": found.record.subject, "assignment": orjson.loads(bytes(found.record.assignment))}
        print_json({**_fields(found, settings), **whole})
    else:
        print_assignment(found, _status(found, settings))
    return exit_codes.OK


def _status(one: StoredAssignment, settings: Settings) -> str | None:
    """Return the status; None if the router does not listen for acknowledgements, because then a missing one means nothing."""
    return one.status if one.ack is not None or settings.acks.enabled else None


def _row(one: StoredAssignment, settings: Settings) -> tuple[object, ...]:
    known, ack = one.known, one.ack
    pushed, said = one.stored_at[:19].replace("T", " "), ack.message if ack is not None else None
    return (known.assignment_id, pushed, known.tenant_id, known.job_type, known.provider_id, _status(one, settings), said)


def _fields(one: StoredAssignment, settings: Settings) -> dict[str, object]:
    known, ack = one.known, one.ack
    fields = {
        "assignment_id": known.assignment_id,
        "request_id": known.request_id,
        "tenant_id": known.tenant_id,
        "trace_id": known.trace_id,
        "job": known.job_type,
        "provider_id": known.provider_id,
        "pushed_at": one.stored_at,
        "status": _status(one, settings),
        "acknowledged_at": datetime.fromtimestamp(ack.at_ms / 1000, UTC).isoformat() if ack is not None else None,
        "message": ack.message if ack is not None else None,
    }
    return {name: value for name, value in fields.items() if value is not None}
