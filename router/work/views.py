"""How assignments and workers are shown: in a terminal, as JSON, in the console."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import to_builtins

from router.operate.doctor.facts import share, span
from router.shell.output import format_time
from router.shell.view import View, ViewColumn
from router.work.assignments import StoredAssignment
from router.work.model.worker_liveness import TrackedWorker, WorkerCondition

HeardWorker = tuple[TrackedWorker, WorkerCondition]


def make_assignments_view(*, reads_acknowledgements: bool) -> View:
    """Return the view of a `StoredAssignment`: a status is known where acknowledgements are read."""

    def find_status(stored: StoredAssignment) -> str | None:
        return stored.known_status(reads_acknowledgements=reads_acknowledgements)

    return View(
        ViewColumn(
            "assignment_id",
            "assignment",
            "Assignment",
            of="assignment.assignment_id",
            kind="id",
            href="address",
        ),
        ViewColumn("pushed_at", "pushed", "Pushed", of="stored_at", tell=format_time, kind="time"),
        ViewColumn("tenant_id", "tenant", "Tenant", of="assignment.tenant_id"),
        ViewColumn("job", label="Job", of="assignment.job_type"),
        ViewColumn("provider_id", "provider", "Provider", of="assignment.provider_id"),
        ViewColumn("status", label="Status", of=find_status, kind="verdict"),
        ViewColumn("message", "said", "Said", of="acknowledgement.message"),
        fields=lambda stored: stored.list_fields(reads_acknowledgements=reads_acknowledgements),
        links=lambda stored: {"address": f"/assignments/{stored.assignment.assignment_id}"},
    )


def make_workers_view(now: float) -> View:
    """Return the view of a worker and its condition, `now` in steady seconds."""
    return View(
        ViewColumn("worker", label="Worker", of=lambda heard: heard[0].beat.worker_id, kind="id"),
        ViewColumn("tenant", label="Tenant", of=lambda heard: heard[0].beat.tenant_id),
        ViewColumn("status", label="State", of=lambda heard: heard[1].value, kind="verdict"),
        ViewColumn(
            "load", label="Load", of=lambda heard: heard[0].beat.load, tell=share, kind="percent"
        ),
        ViewColumn("slots", label="Slots", of=lambda heard: heard[0].beat.capacity, kind="number"),
        ViewColumn("every_s", "every", "Every, s", of=_find_interval, tell=span, kind="number"),
        ViewColumn(
            "heard_s",
            "heard",
            "Heard, s ago",
            of=lambda heard: now - heard[0].heard_at,
            tell=lambda seconds: f"{span(seconds)} ago",
            page=round,
            kind="number",
        ),
        fields=lambda heard: _list_worker_fields(heard, now),
        page_first=("worker", "status"),
    )


def _find_interval(heard: HeardWorker) -> float | None:
    interval_ms = heard[0].beat.interval_ms
    return interval_ms / 1000 if interval_ms is not None else None


def _list_worker_fields(heard_worker: HeardWorker, now: float) -> Mapping[str, object]:
    worker, condition = heard_worker
    heard = {"status": condition.value, "heard_s_ago": round(now - worker.heard_at, 3)}
    fields = {**to_builtins(worker.beat), **heard}
    return {name: value for name, value in fields.items() if value is not None}
