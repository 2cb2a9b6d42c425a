"""The health of extensions and the breakers on all instances: the instance that an operator asks
reads the states of all others, and merges them.

    operator ── get_extension_health, get_circuit_breaker_states ──> one instance ── tell_states ──> all instances, including itself
                                                                         └── merged (`merge`), with the node of each

Each instance calls extensions and counts failures itself, so one instance knows only a part;
provider breakers are shared. An instance that does not answer within `admin.peers_wait_ms` is
missing from `router_node_ids`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import structs

from router.core.breakers import CLOSED
from router.extensions.model import ExtensionRegistry, HealthTracker
from router.operate.admin.service import (
    INTERNAL_PREFIX,
    INVALID_REQUEST,
    Answer,
    RequestFields,
    Service,
    ServiceError,
    drop_absent,
)
from router.policies.breakers import Breakers, build_closed_state

# -- Merges the states that several instances have of the same extensions and breakers, with the
# node of each. Pure.
#
#     health     calls are summed; the average is that of all calls; a percentile is the highest of
#                all nodes
#     breakers   the worst state (open, half_open, closed), the most failures in a row, the highest
#                error rate; of an extension
#                also the tenants to which it is not closed
#
# A node without calls in its window, and with a closed breaker without failures, is not listed in
# `nodes`.


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
                f"{base}#{names.count(base) + sum(id_.startswith(f'{base}#') for id_ in names) + 1}"
            )
        names.append(name)
    return names


def merge(
    parts: Sequence[Line], key: str, merge_lines: Callable[[ByNode], dict[str, object]]
) -> dict[str, dict[str, object]]:
    """One merged entry for each name that any part has under `key`."""
    by_name: dict[str, ByNode] = {}
    for node, part in zip(node_ids(parts), parts, strict=False):
        for name, line in _lines(part.get(key)):
            by_name.setdefault(name, []).append((node, line))
    return {name: merge_lines(by_name[name]) for name in sorted(by_name)}


def merge_health(lines: ByNode) -> dict[str, object]:
    good, bad = _sum(lines, "success_count"), _sum(lines, "failure_count")
    called = [line for _, line in lines if line.get("latency_samples")]
    newest = max((line for _, line in lines), key=lambda line: line.get("updated_at") or 0)
    merged: dict[str, object] = {**newest, **_worst_breaker(lines)}
    merged.update(
        {
            name: max(values)
            for name in _LATEST
            if (values := [line[name] for _, line in lines if name in line])
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
    states: dict[str, str] = {}
    for _, line in lines:
        for tenant_id, state in list(line.get("not_closed", {}).items())[:MOST_TENANTS]:
            states[tenant_id] = max(
                states.get(tenant_id, state), state, key=lambda compared: _RANK.get(compared, 0)
            )
    return dict(sorted(states.items())[:MOST_TENANTS])


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


# -- The health of extensions and the breakers on all instances: the instance that an operator
# asks reads the states of all others.


HEALTH, BREAKERS = "health", "breakers"
READ_STATES = INTERNAL_PREFIX + "tell_states"


class InstancePeers(Protocol):
    async def ask_all(
        self, subject: str, asked: Mapping[str, object]
    ) -> Sequence[Mapping[str, Any]]:
        """The answers that are ok and in time."""


class Instances:
    """`node_id`: that of this instance."""

    def __init__(
        self,
        registry: ExtensionRegistry,
        health: HealthTracker,
        breakers: Breakers,
        node_id: str,
        peers: InstancePeers,
    ) -> None:
        self._registry = registry
        self._health = health
        self._breakers = breakers
        self._node_id = node_id
        self._peers = peers

    def list_services(self) -> tuple[Service, ...]:
        figures = (
            "extension_id, status, success_rate, …, circuit_breaker_state, "
            "circuit_breaker_opened_at_ms, updated_at"
        )
        health = (
            f"{{health{{id: {{{figures}, nodes{{node_id: {{status, …}}}}}}}}, router_node_ids[]}}"
        )
        state = (
            "{…, state closed | open | half_open, opened_at_ms?, failure_count, error_rate, "
            "nodes{node_id: {state, …}}}"
        )
        of_extension = f"{state[:-1]}, not_closed{{tenant_id: state}}?}}"
        states = (
            f"{{ok, states{{extension_id: {of_extension}}}, providers{{tenant/provider: "
            f"{state}}}, router_node_id, router_node_ids[]}}"
        )
        asks, own = (
            "{about: health | breakers}",
            "{ok, router_node_id, health or states, providers}",
        )
        return (
            Service(
                "get_extension_health",
                "How each extension fared in the last minutes",
                "{}",
                health,
                self.read_health,
            ),
            Service(
                "get_circuit_breaker_states",
                "Every circuit breaker",
                "{}",
                states,
                self.read_breakers,
            ),
            Service(
                "tell_states",
                "What this instance counted",
                asks,
                own,
                self.read_own,
                INTERNAL_PREFIX,
                True,
            ),
        )

    async def read_health(self, asked: RequestFields) -> Answer:
        parts = await self._read_all(HEALTH)
        return {"health": merge(parts, "health", merge_health), "router_node_ids": node_ids(parts)}

    async def read_breakers(self, asked: RequestFields) -> Answer:
        """The worst state of each breaker, and that of each node."""
        parts = await self._read_all(BREAKERS)
        return {
            "states": merge(parts, "states", merge_breakers),
            "providers": merge(parts, "providers", merge_breakers),
            "router_node_id": self._node_id,
            "router_node_ids": node_ids(parts),
        }

    async def read_own(self, asked: RequestFields) -> Answer:
        about = asked.text("about")
        if about not in (HEALTH, BREAKERS):
            raise ServiceError(
                INVALID_REQUEST,
                "Invalid field: about must be health or breakers",
                {"field": "about"},
            )
        return self._read(about)

    async def _read_all(self, about: str) -> Sequence[Mapping[str, Any]]:
        """The states of each instance; only those of this one if there is no answer."""
        return await self._peers.ask_all(READ_STATES, {"about": about}) or [self._read(about)]

    def _read(self, about: str) -> dict[str, Any]:
        """Each registered extension has figures and a state, also before its first call."""
        breakers, names = self._breakers.extension_states(), sorted(self._registry.get_all())
        if about == HEALTH:
            return {
                "router_node_id": self._node_id,
                "health": {
                    name: self._health_fields(name, breakers.get(name, {})) for name in names
                },
            }
        states = {
            name: drop_absent(breakers.get(name) or build_closed_state(name)) for name in names
        }
        providers = {
            name: drop_absent(state) for name, state in self._breakers.provider_states().items()
        }
        return {"router_node_id": self._node_id, "states": states, "providers": providers}

    def _health_fields(self, extension_id: str, breaker: Mapping[str, object]) -> dict[str, object]:
        """The window's figures, with the breaker's state beside them."""
        figures = structs.asdict(self._health.figures(extension_id))
        state = {
            "circuit_breaker_state": breaker.get("state", CLOSED),
            "circuit_breaker_opened_at_ms": breaker.get("opened_at_ms"),
        }
        return drop_absent({**figures, **state})
