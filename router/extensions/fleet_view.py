"""Merges the states that several instances have of the same extensions and breakers, with the node
of each. Pure.

    health     calls are summed; the average is that of all calls; a percentile is the highest of
               all nodes
    breakers   the worst state (open, half_open, closed), the most failures in a row, the highest
               error rate; of an extension
               also the tenants to which it is not closed

A node without calls in its window, and with a closed breaker without failures, is not listed in
`nodes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Line = Mapping[str, Any]
ByNode = list[tuple[str, Line]]

MOST_NODES = 256
MOST_TENANTS = 20
_RANK = {"closed": 0, "half_open": 1, "open": 2}
_PERCENTILES = ("p50_latency_ms", "p95_latency_ms", "p99_latency_ms")
_LATEST = ("last_success", "last_failure", "updated_at")
_OF_A_NODE = (
    "status",
    "success_count",
    "failure_count",
    "p95_latency_ms",
    "last_success",
    "circuit_breaker_state",
)


def node_ids(parts: Sequence[Line]) -> list[str]:
    """The node of each part; a number distinguishes instances with the same name."""
    names: list[str] = []
    for part in parts[:MOST_NODES]:
        name = base = str(part.get("router_node_id", "?"))
        while name in names:
            name = (
                f"{base}#{names.count(base) + sum(one.startswith(f'{base}#') for one in names) + 1}"
            )
        names.append(name)
    return names


def merge(
    parts: Sequence[Line], key: str, merge_lines: Callable[[ByNode], dict[str, object]]
) -> dict[str, dict[str, object]]:
    """One merged entry for each name that any part has under `key`."""
    found: dict[str, ByNode] = {}
    for node, part in zip(node_ids(parts), parts, strict=False):
        for name, line in _lines(part.get(key)):
            found.setdefault(name, []).append((node, line))
    return {name: merge_lines(found[name]) for name in sorted(found)}


def merge_health(lines: ByNode) -> dict[str, object]:
    good, bad = _sum(lines, "success_count"), _sum(lines, "failure_count")
    called = [line for _, line in lines if line.get("latency_samples")]
    newest = max((line for _, line in lines), key=lambda line: line.get("updated_at") or 0)
    merged: dict[str, object] = {**newest, **_worst_breaker(lines)}
    merged.update(
        {
            name: max(found)
            for name in _LATEST
            if (found := [line[name] for _, line in lines if name in line])
        }
    )
    merged.update(
        {name: max((line.get(name, 0.0) for line in called), default=0.0) for name in _PERCENTILES}
    )
    rate = good / (good + bad) if good + bad else 1.0
    merged.update(
        success_count=good,
        failure_count=bad,
        success_rate=rate,
        latency_samples=_sum(lines, "latency_samples"),
    )
    merged.update(status=_status(rate), avg_latency_ms=_average(called), nodes=_list_nodes(lines))
    return merged


def merge_breakers(lines: ByNode) -> dict[str, object]:
    state = _worst(lines, "state")
    merged: dict[str, object] = {
        name: value for name, value in lines[0][1].items() if name != "opened_at_ms"
    }
    merged.update(state=state, failure_count=max(line.get("failure_count", 0) for _, line in lines))
    merged.update(
        error_rate=max(line.get("error_rate", 0.0) for _, line in lines),
        **_opening(lines, "state", "opened_at_ms"),
    )
    if not_closed := _merge_tenants(lines):
        merged["not_closed"] = not_closed
    figures = ("state", "opened_at_ms", "failure_count", "error_rate")
    merged["nodes"] = {
        node: {name: line[name] for name in figures if name in line}
        for node, line in lines
        if _has_failures(line)
    }
    return merged


def _merge_tenants(lines: ByNode) -> dict[str, str]:
    """By tenant, the worst state that any node has."""
    found: dict[str, str] = {}
    for _, line in lines:
        for tenant_id, state in list(line.get("not_closed", {}).items())[:MOST_TENANTS]:
            found[tenant_id] = max(
                found.get(tenant_id, state), state, key=lambda one: _RANK.get(one, 0)
            )
    return dict(sorted(found.items())[:MOST_TENANTS])


def _lines(table: object) -> list[tuple[str, Line]]:
    """Entries that another version wrote differently count as absent."""
    return (
        [(name, line) for name, line in table.items() if isinstance(line, Mapping)]
        if isinstance(table, Mapping)
        else []
    )


def _list_nodes(lines: ByNode) -> dict[str, dict[str, object]]:
    active = [
        (node, line)
        for node, line in lines
        if line.get("latency_samples") or line.get("circuit_breaker_state") != "closed"
    ]
    return {
        node: {name: line[name] for name in _OF_A_NODE if name in line} for node, line in active
    }


def _worst_breaker(lines: ByNode) -> dict[str, object]:
    opening = _opening(lines, "circuit_breaker_state", "circuit_breaker_opened_at_ms")
    return {"circuit_breaker_state": _worst(lines, "circuit_breaker_state"), **opening}


def _worst(lines: ByNode, name: str) -> str:
    return max(
        (str(line.get(name, "closed")) for _, line in lines), key=lambda state: _RANK.get(state, 0)
    )


def _opening(lines: ByNode, state: str, at: str) -> dict[str, object]:
    """The earliest opening among the breakers in the worst state."""
    worst = _worst(lines, state)
    moments = [
        line[at] for _, line in lines if line.get(state) == worst and isinstance(line.get(at), int)
    ]
    return {at: min(moments)} if moments and worst != "closed" else {}


def _has_failures(line: Line) -> bool:
    return (
        line.get("state") != "closed"
        or bool(line.get("failure_count"))
        or bool(line.get("error_rate"))
    )


def _sum(lines: ByNode, name: str) -> int:
    return sum(line.get(name, 0) for _, line in lines)


def _average(called: Sequence[Line]) -> float:
    samples: int = sum(line["latency_samples"] for line in called)
    return (
        sum(line.get("avg_latency_ms", 0.0) * line["latency_samples"] for line in called) / samples
        if samples
        else 0.0
    )


def _status(rate: float) -> str:
    return "healthy" if rate >= 0.95 else "degraded" if rate >= 0.80 else "unhealthy"
