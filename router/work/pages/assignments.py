"""Assignments that were pushed to workers, and one whole."""

from __future__ import annotations

import orjson

from router.contracts.exact_json import dump_json
from router.contracts.masked_payload import describe_payload
from router.core import ids
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
from router.shell.table import Table, TableFilter
from router.work.assignments import find_assignment, list_assignments
from router.work.pages.workers import TABS
from router.work.views import make_assignments_view

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
    found = [
        one
        async for one in list_assignments(
            sources.link.jetstream(), bucket, tenant=tenant, status=status, limit=MAX_LISTED
        )
    ]
    view = make_assignments_view(reads_acks=settings.acks.enabled)
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
        table=Table(
            columns=view.page_columns,
            rows=[view.build_row(one) for one in found],
            empty=EMPTY,
            filters=FILTERS,
            note=off + (f"The newest {MAX_LISTED}." if len(found) == MAX_LISTED else ""),
        ),
    )


async def read_assignment(sources: Sources, params: PageParams) -> Page:
    """One assignment: the decision, the work with masked values, the acknowledgement."""
    assignment_id, settings = params.path["assignment"], sources.settings
    if not ids.is_opaque(assignment_id):
        raise PageNotFound(
            "An assignment's id is 1 to 128 printable ASCII characters without spaces."
        )
    found = await find_assignment(
        sources.link.jetstream(), settings.buckets.assignments_known.name, assignment_id
    )
    if found is None:
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
        for name, value in found.list_fields(reads_acks=settings.acks.enabled).items()
    ]
    decision = found.known.decision
    why = [
        Fact("Provider", decision.provider_id),
        Fact("Reason", decision.reason),
        Fact("Expected", f"{decision.expected_latency_ms:g} ms, cost {decision.expected_cost:g}"),
    ]
    shown = describe_payload(bytes(found.record.assignment))
    text = dump_json(
        shown.get("payload", shown), orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
    ).decode()
    return Page(
        title="Assignment",
        tenant=found.known.tenant_id,
        lead=assignment_id,
        command=build_command("router", "assignments", "show", assignment_id),
        back=("/assignments", "Assignments"),
        lists=[
            FactList("What is known", facts),
            FactList("The decision", why),
            TextBlock(
                "The work, masked", text[:MAX_WORK_TEXT], f"published on {found.record.subject}"
            ),
        ],
    )
