"""The health of extensions and the breakers on all instances: the instance that an operator asks
reads the states of all others.

    operator ── get_extension_health, get_circuit_breaker_states ──> one instance ── tell_states ──> all instances, including itself
                                                                         └── merged (`fleet_view`), with the node of each

Each instance calls extensions and counts failures itself, so one instance knows only a part;
provider breakers are shared. An instance that does not answer within `admin.peers_wait_ms` is
missing from `router_node_ids`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import structs

from router.core.breakers import CLOSED
from router.extensions.fleet_view import merge, merge_breakers, merge_health, node_ids
from router.extensions.model import ExtensionRegistry, HealthTracker
from router.operate.admin.request_fields import RequestFields
from router.operate.admin.service import INTERNAL_PREFIX, Answer, Service, drop_absent
from router.operate.admin.service_error import INVALID_REQUEST, ServiceError
from router.policies.breakers import Breakers, build_closed_state

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
        known, names = self._breakers.extension_states(), sorted(self._registry.get_all())
        if about == HEALTH:
            return {
                "router_node_id": self._node_id,
                "health": {name: self._health_fields(name, known.get(name, {})) for name in names},
            }
        states = {name: drop_absent(known.get(name) or build_closed_state(name)) for name in names}
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
