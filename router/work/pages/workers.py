"""The workers whose heartbeats this console heard: idle, busy, draining, stopped, silent."""

from __future__ import annotations

from collections import Counter

from router.core.clock import steady
from router.shell.page_data import Page, PageParams, Sources, build_command
from router.shell.rendering import format_moment
from router.shell.table import MAX_ROWS, Column, Row, Table, TableFilter
from router.work.model import TrackedWorker, WorkerCondition

COLUMNS = (
    Column("worker", "Worker", "id"),
    Column("status", "State", "verdict"),
    Column("tenant", "Tenant"),
    Column("load", "Load", "percent"),
    Column("slots", "Slots", "number"),
    Column("every_s", "Every, s", "number"),
    Column("heard_s", "Heard, s ago", "number"),
)
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
            columns=COLUMNS,
            rows=[_build_row(*one, now) for one in found[:MAX_ROWS]],
            empty=(
                "No worker was heard. A worker usually sends a heartbeat every 5 s; `router "
                "worker --echo` starts one."
            ),
            filters=(TableFilter("tenant", "Tenant"),),
            note=link.workers_cause,
        ),
    )


def _build_row(worker: TrackedWorker, condition: WorkerCondition, now: float) -> Row:
    beat = worker.beat
    return {
        "worker": beat.worker_id,
        "status": condition.value,
        "tenant": beat.tenant_id,
        "load": beat.load,
        "slots": beat.capacity,
        "every_s": beat.interval_ms / 1000 if beat.interval_ms is not None else None,
        "heard_s": round(now - worker.heard_at),
    }
