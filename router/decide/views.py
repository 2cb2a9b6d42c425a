"""How the steps of a request, and decisions, are shown.

A recorded decision for people: what was known, what was considered, and whether the same result is
computed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
from rich.console import RenderableType
from rich.text import Text

from router.shell.output import (
    build_cell,
    build_grid,
    build_heading,
    build_panel,
    build_table,
    format_bytes,
    open_console,
    printable,
)
from router.shell.view import View, ViewColumn

Record = Mapping[str, Any]

CONTEXT = ("context", "constraints", "metadata")

REQUEST_STEPS = View(
    ViewColumn("at", label="At", kind="time"),
    ViewColumn("what", label="Step"),
    ViewColumn("where", label="Where"),
    ViewColumn("facts", label="Facts", of=lambda step: _join_facts(step.facts)),
)


def _join_facts(facts: Mapping[str, object]) -> str:
    return "  ".join(f"{name}={value}" for name, value in facts.items())


# -- A recorded decision. Its parts are JSON of the router that decided.


def _describe_breaker(state: Record) -> str:
    open_for_ms = state.get("open_for_ms")
    return "closed" if open_for_ms is None else f"open for another {open_for_ms} ms"


TRACE_STEPS = View(ViewColumn("stage"), ViewColumn("what", of="subject"), ViewColumn("verdict"))
PROVIDERS = View(
    ViewColumn("provider"),
    ViewColumn("breaker", of=_describe_breaker),
    ViewColumn("average_latency", of="latency_ms", tell="{:.4g} ms".format),
    ViewColumn("average_cost", of="cost", tell="{:.4g}".format),
)
FIGURES = View(
    ViewColumn("provider"),
    ViewColumn("score", tell="{:.6g}".format),
    ViewColumn("in_flight"),
    ViewColumn("latency", of="latency_ms", tell="{:.4g} ms".format),
    ViewColumn("p95", of="p95_latency_ms", tell="{:.4g} ms".format),
    ViewColumn("success", of="success_rate", tell="{:.1%}".format),
    ViewColumn("cost", tell="{:.4g}".format),
    ViewColumn("results", of="samples"),
)


def print_decision_record(record: Record) -> None:
    """Print the whole record in a frame."""
    parts: list[RenderableType] = [build_grid(_list_request(record))]
    if record["states"]:
        parts += [
            build_heading("known of the providers then"),
            _build_provider_table(PROVIDERS, record["states"]),
        ]
    if figures := record.get("figures"):
        parts += [
            build_heading("learned of the providers then"),
            _build_provider_table(FIGURES, figures),
        ]
    if trace := record["reevaluation"].get("trace"):
        steps = build_table(TRACE_STEPS.titles, map(TRACE_STEPS.list_cells, trace))
        parts += [build_heading("considered, in this order"), steps]
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


def _build_provider_table(view: View, figures_by_provider: Mapping[str, Record]) -> RenderableType:
    rows = [{"provider": name, **figures} for name, figures in figures_by_provider.items()]
    return build_table(view.titles, map(view.list_cells, rows))


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
