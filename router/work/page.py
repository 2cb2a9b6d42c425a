"""Assignments that were pushed to workers, and one whole; the workers whose heartbeats this console
heard: idle, busy, draining, stopped, silent.
"""

from __future__ import annotations

from collections import Counter

import orjson

from router.contracts.exact_json import dump_json
from router.contracts.payload_display import describe_payload
from router.core import ids
from router.core.clock import steady
from router.shell.page_data import (
    Fact,
    FactList,
    Page,
    PageNotFound,
    PageParams,
    Sources,
    TextBlock,
    build_command,
)
from router.shell.rendering import format_moment
from router.shell.table import MAX_ROWS, TableFilter
from router.work.assignments import find_assignment, list_assignments
from router.work.model import WorkerCondition
from router.work.views import make_assignments_view, make_workers_view

TABS = (("/assignments", "Assignments"), ("/workers", "Workers"))
MAX_LISTED = 500
MAX_WORK_TEXT = 65_536  # characters
FILTERS = (
    TableFilter("tenant", "Tenant"),
    TableFilter("status", "Status", "accepted, rejected, error, unacknowledged"),
)
EMPTY = (
    "No assignments of the last day. A request with `push_assignment` brings one; `router "
    "worker --echo` does them."
)


async def read_assignments(sources: Sources, params: PageParams) -> Page:
    """The newest first."""
    settings, tenant, status = sources.settings, params.text("tenant"), params.text("status")
    bucket = settings.buckets.assignments_known.name
    assignments = [
        stored
        async for stored in list_assignments(
            sources.link.jetstream(), bucket, tenant=tenant, status=status, limit=MAX_LISTED
        )
    ]
    view = make_assignments_view(reads_acknowledgements=settings.acks.enabled)
    off = (
        ""
        if settings.acks.enabled
        else "No status is shown: acknowledgements are read when acks.enabled is set. "
    )
    return Page(
        title="Assignments",
        lead="pushed to workers, the newest first",
        command=build_command("router", "assignments", tenant=tenant, status=status),
        tabs=TABS,
        table=view.make_table(
            assignments,
            empty=EMPTY,
            filters=FILTERS,
            note=off + (f"The newest {MAX_LISTED}." if len(assignments) == MAX_LISTED else ""),
        ),
    )


async def read_assignment(sources: Sources, params: PageParams) -> Page:
    """One assignment: the decision, the work with masked values, the acknowledgement."""
    assignment_id, settings = params.path["assignment"], sources.settings
    if not ids.is_opaque(assignment_id):
        raise PageNotFound(
            "An assignment's id is 1 to 128 printable ASCII characters without spaces."
        )
    stored = await find_assignment(
        sources.link.jetstream(), settings.buckets.assignments_known.name, assignment_id
    )
    if stored is None:
        raise PageNotFound(
            f"No assignment {assignment_id} is known: its time in "
            f"{settings.buckets.assignments_known.name} is over, or it never was."
        )
    facts = [
        Fact(
            name.replace("_", " ").capitalize(),
            str(value),
            kind="time" if name.endswith("_at") else "text",
        )
        for name, value in stored.list_fields(reads_acknowledgements=settings.acks.enabled).items()
    ]
    decision = stored.assignment.decision
    why = [
        Fact("Provider", decision.provider_id),
        Fact("Reason", decision.reason),
        Fact("Expected", f"{decision.expected_latency_ms:g} ms, cost {decision.expected_cost:g}"),
    ]
    shown = describe_payload(bytes(stored.record.assignment))
    text = dump_json(
        shown.get("payload", shown), orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
    ).decode()
    return Page(
        title="Assignment",
        tenant=stored.assignment.tenant_id,
        lead=assignment_id,
        command=build_command("router", "assignments", "show", assignment_id),
        back=("/assignments", "Assignments"),
        lists=[
            FactList("What is known", facts),
            FactList("The decision", why),
            TextBlock(
                "The work, masked", text[:MAX_WORK_TEXT], f"published on {stored.record.subject}"
            ),
        ],
    )


# -- Workers.

ORDER = (
    WorkerCondition.SILENT,
    WorkerCondition.DRAINING,
    WorkerCondition.BUSY,
    WorkerCondition.IDLE,
    WorkerCondition.STOPPED,
)


async def read_workers(sources: Sources, params: PageParams) -> Page:
    """The silent ones first."""
    link, now, tenant = sources.link, steady(), params.text("tenant")
    view = make_workers_view(now)
    link.connection()  # raises BrokerUnavailable: what was heard before says nothing of now
    heard = [
        heard_worker
        for heard_worker in link.workers.list_workers(now)
        if tenant in (None, heard_worker[0].beat.tenant_id)
    ]
    heard.sort(
        key=lambda heard_worker: (
            ORDER.index(heard_worker[1]),
            heard_worker[0].beat.tenant_id or "",
            heard_worker[0].beat.worker_id,
        )
    )
    count = Counter(condition for _, condition in heard)
    alive = sum(number for condition, number in count.items() if condition.is_alive)
    since = (
        f"since {format_moment(link.hears_since)}" if link.hears_since is not None else "not yet"
    )
    return Page(
        title="Workers",
        lead=(
            f"{alive:,} alive, {count[WorkerCondition.SILENT]:,} silent; heartbeats are heard "
            f"{since}"
        ),
        command=build_command("router", "workers"),
        tabs=TABS,
        table=view.make_table(
            heard[:MAX_ROWS],
            empty=(
                "No worker was heard. A worker usually sends a heartbeat every 5 s; `router "
                "worker --echo` starts one."
            ),
            filters=(TableFilter("tenant", "Tenant"),),
            note=link.workers_cause,
        ),
    )
