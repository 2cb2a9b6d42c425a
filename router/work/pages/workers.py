"""The workers whose heartbeats this console heard: idle, busy, draining, stopped, silent."""

from __future__ import annotations

from collections import Counter

from router.core.clock import steady
from router.shell.page_data import Page, PageParams, Sources, build_command
from router.shell.rendering import format_moment
from router.shell.table import MAX_ROWS, Table, TableFilter
from router.work.model import WorkerCondition
from router.work.views import make_workers_view

TABS = (("/assignments", "Assignments"), ("/workers", "Workers"))
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
    found = [
        one for one in link.workers.list_workers(now) if tenant in (None, one[0].beat.tenant_id)
    ]
    found.sort(
        key=lambda one: (ORDER.index(one[1]), one[0].beat.tenant_id or "", one[0].beat.worker_id)
    )
    count = Counter(condition for _, condition in found)
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
        table=Table(
            columns=view.page_columns,
            rows=[view.build_row(one) for one in found[:MAX_ROWS]],
            empty=(
                "No worker was heard. A worker usually sends a heartbeat every 5 s; `router "
                "worker --echo` starts one."
            ),
            filters=(TableFilter("tenant", "Tenant"),),
            note=link.workers_cause,
        ),
    )
