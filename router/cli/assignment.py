"""One assignment as people see it: what was decided, what is to be done, what a worker said of it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import orjson
from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from router.cli.output import console, grid, heading
from router.cli.shown import shown

if TYPE_CHECKING:
    from router.buckets.assignments import StoredAssignment

Facts = Iterable[tuple[str, object]]


def print_assignment(one: StoredAssignment, status: str | None) -> None:
    console().print(assignment_panel(one, status))


def assignment_panel(one: StoredAssignment, status: str | None) -> Panel:
    """The whole of it in a frame. `status`: None where nobody listens for acknowledgements."""
    work = orjson.loads(bytes(one.record.assignment))
    parts: list[RenderableType] = [grid(_who(one, status)), heading("decision"), grid(_decision(one)), heading("work")]
    parts.append(Text(shown(orjson.dumps(work.get("job")))))
    if one.ack is not None:
        parts += [heading("worker"), grid(_said(one))]
    title = f"assignment {one.known.assignment_id}"
    return Panel(Group(*parts), title=title, title_align="left", box=box.ROUNDED, border_style="dim", padding=(0, 1), expand=False)


def _who(one: StoredAssignment, status: str | None) -> Facts:
    known = one.known
    yield "tenant", known.tenant_id
    yield "request", known.request_id
    yield "trace", known.trace_id
    yield "pushed", f"{one.stored_at} to {one.record.subject}"
    yield "deadline", f"{known.deadline_ms} ms"
    yield "status", status


def _decision(one: StoredAssignment) -> Facts:
    decision = one.known.decision
    yield "provider", decision.provider_id
    yield "reason", decision.reason
    yield "expected", f"{decision.expected_latency_ms:g} ms, cost {decision.expected_cost:g}"
    yield from decision.metadata.items()


def _said(one: StoredAssignment) -> Facts:
    if one.ack is not None:
        yield "status", one.ack.status
        yield "message", one.ack.message
        yield "at", datetime.fromtimestamp(one.ack.at_ms / 1000, UTC).isoformat()
