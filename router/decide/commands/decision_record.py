"""One recorded decision for people: what was known, what was considered, and whether the same
result is computed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
from rich.console import RenderableType
from rich.text import Text

from router.shell.formatting import format_bytes
from router.shell.output import (
    build_cell,
    build_grid,
    build_heading,
    build_panel,
    build_table,
    open_console,
    printable,
)

Record = Mapping[str, Any]

CONTEXT = ("context", "constraints", "metadata")
STEP_COLUMNS = ("stage", "what", "verdict")
FIGURES = ("provider", "score", "in flight", "latency", "p95", "success", "cost", "results")
PROVIDERS = ("provider", "breaker", "average latency", "average cost")


def print_decision_record(record: Record) -> None:
    """Print the whole record in a frame."""
    parts: list[RenderableType] = [build_grid(_list_request(record))]
    if record["states"]:
        parts += [
            build_heading("known of the providers then"),
            build_table(PROVIDERS, _list_providers(record["states"])),
        ]
    if figures := record.get("figures"):
        parts += [
            build_heading("learned of the providers then"),
            build_table(FIGURES, _list_figures(figures)),
        ]
    if trace := record["reevaluation"].get("trace"):
        rows = ((step["stage"], step["subject"], step["verdict"]) for step in trace)
        parts += [build_heading("considered, in this order"), build_table(STEP_COLUMNS, rows)]
    parts.append(build_grid(_list_outcome(record)))
    open_console().print(build_panel(f"decision {record['request']['answer_id']}", parts))


def describe_answer(answer: Record) -> str:
    """Return `openai (weighted)`, or `decision_failed: why`."""
    if (decision := answer.get("decision")) is not None:
        return f"{decision['provider_id']} ({decision['reason']})"
    error = answer.get("error") or {}
    return f"{error.get('code')}: {error.get('message')}"


def _list_request(record: Record) -> Iterator[tuple[str, object]]:
    request, policy = record["request"], record["policy"]
    yield "tenant", request["tenant_id"]
    yield "message", f"{request['message_type']} {request.get('message_id', '')}".rstrip()
    yield "trace", request.get("trace_id")
    for name in CONTEXT:
        if name in request:
            yield name, format_bytes(orjson.dumps(request[name]))
    yield (
        "at",
        datetime.fromtimestamp(record["at_ms"] / 1000, UTC).isoformat(timespec="milliseconds"),
    )
    yield "by", f"policy {policy['tenant_id']}/{policy['policy_id']} version {policy['version']}"
    yield "on", record.get("router_node_id")
    yield "session was with", record.get("remembered")
    if (previous := record.get("previous")) is not None:
        yield "follows up", f"{previous['provider_id']}, {previous['attempts']} attempts"


def _list_providers(states: Mapping[str, Record]) -> Iterator[tuple[object, ...]]:
    for name, state in states.items():
        open_for_ms, latency_ms, cost = (
            state.get("open_for_ms"),
            state.get("latency_ms"),
            state.get("cost"),
        )
        breaker = f"open for another {open_for_ms} ms" if open_for_ms is not None else "closed"
        yield (
            name,
            breaker,
            f"{latency_ms:.4g} ms" if latency_ms is not None else None,
            f"{cost:.4g}" if cost is not None else None,
        )


def _list_figures(figures: Mapping[str, Record]) -> Iterator[tuple[object, ...]]:
    for name, known in figures.items():
        score, latency_ms, p95, cost = (
            known[key] for key in ("score", "latency_ms", "p95_latency_ms", "cost")
        )
        yield (
            name,
            f"{score:.6g}" if score is not None else None,
            known["in_flight"],
            f"{latency_ms:.4g} ms" if latency_ms is not None else None,
            f"{p95:.4g} ms" if p95 is not None else None,
            f"{known['success_rate']:.1%}",
            f"{cost:.4g}" if cost is not None else None,
            known["samples"],
        )


def _list_outcome(record: Record) -> Iterator[tuple[str, object]]:
    reevaluation = record["reevaluation"]
    yield "recorded", Text(printable(describe_answer(record)), style="bold")
    if "unavailable" in reevaluation:
        yield "computed again", _style_warning(f"impossible: {reevaluation['unavailable']}")
        return
    same = (
        Text("the same", style="green")
        if reevaluation["is_same"]
        else Text("not the same", style="bold red")
    )
    yield "computed again", Text.assemble(build_cell(describe_answer(reevaluation)), ", ", same)
    if "uncertainty" in reevaluation:
        yield "uncertain", _style_warning(reevaluation["uncertainty"])


def _style_warning(text: str) -> Text:
    return Text(printable(text), style="yellow")
