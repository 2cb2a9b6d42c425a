"""One assignment for people: the decision, the work, and what a worker acknowledged."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from rich.console import RenderableType
from rich.text import Text

from router.contracts.exact_json import dump_json, load_written
from router.shell.formatting import format_bytes
from router.shell.output import build_grid, build_heading, build_panel, open_console
from router.work.assignments import StoredAssignment

Facts = Iterable[tuple[str, object]]


def print_assignment(one: StoredAssignment, status: str | None) -> None:
    """Print the whole assignment in a frame. `status`: None if the router does not listen for
    acknowledgements.
    """
    work = load_written(bytes(one.record.assignment))
    parts: list[RenderableType] = [
        build_grid(_list_request(one, status)),
        build_heading("decision"),
        build_grid(_list_decision(one)),
    ]
    parts += [build_heading("work"), Text(format_bytes(dump_json(work.get("job"))))]
    if one.ack is not None:
        parts += [build_heading("worker"), build_grid(_list_ack(one))]
    open_console().print(build_panel(f"assignment {one.known.assignment_id}", parts))


def _list_request(one: StoredAssignment, status: str | None) -> Facts:
    known = one.known
    yield "tenant", known.tenant_id
    yield "request", known.request_id
    yield "trace", known.trace_id
    yield "pushed", f"{one.stored_at} to {one.record.subject}"
    yield "deadline", f"{known.deadline_ms} ms"
    yield "status", status


def _list_decision(one: StoredAssignment) -> Facts:
    decision = one.known.decision
    yield "provider", decision.provider_id
    yield "reason", decision.reason
    yield "expected", f"{decision.expected_latency_ms:g} ms, cost {decision.expected_cost:g}"
    yield from decision.metadata.items()


def _list_ack(one: StoredAssignment) -> Facts:
    if one.ack is not None:
        yield "status", one.ack.status
        yield "message", one.ack.message
        yield "at", datetime.fromtimestamp(one.ack.at_ms / 1000, UTC).isoformat()
