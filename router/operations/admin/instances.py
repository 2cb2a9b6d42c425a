"""The health of extensions and breakers on all instances: the instance that an operator asks reads the states of all others.

    operator ── get_extension_health ──> one instance ── tell_states ──> all instances, including itself
                                              └── merged (`fleet_view`), with the node of each

Each instance calls extensions and counts failures itself, so one instance knows only a part. An instance that does not answer
within `admin.peers_wait_ms` is missing from `router_node_ids`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from router.operations.admin.request_fields import RequestFields
from router.operations.admin.service import INTERNAL_PREFIX, Answer, Service, drop_absent
from router.operations.admin.service_error import INVALID_REQUEST, ServiceError

HEALTH, BREAKERS = "health", "breakers"
READ_STATES = INTERNAL_PREFIX + "tell_states"

States = Mapping[str, Mapping[str, object]]


class HealthSource(Protocol):
    def health(self) -> States:
        """The health of every registered extension by id, as counted by this instance."""


class BreakerSource(Protocol):
    def extension_states(self) -> States:
        """`{id: {extension_id, state, opened_at_ms, failure_count, error_rate}}`."""

    def provider_states(self) -> States:
        """`{"{tenant}/{provider}": {tenant_id, provider_id, …}}`."""


class InstancePeers(Protocol):
    async def ask_all(self, subject: str, asked: Mapping[str, object]) -> Sequence[Mapping[str, Any]]:
        """The answers that are ok and in time."""


class Instances:
    """`node_id`: that of this instance."""

    def __init__(self, health: HealthSource, breakers: BreakerSource, node_id: str, peers: InstancePeers) -> None:
        self.node_id = node_id
        self._health = health
        self._breakers = breakers
        self._peers = peers

    def list_services(self) -> tuple[Service, ...]:
        asks, gives = "{about: health | breakers}", "{ok, router_node_id, health or states, providers}"
        return (Service("tell_states", "What this instance counted", asks, gives, self.read_own, INTERNAL_PREFIX, True),)

    async def read_own(self, asked: RequestFields) -> Answer:
        """The states of this instance."""
        about = asked.text("about")
        if about not in (HEALTH, BREAKERS):
            raise ServiceError(INVALID_REQUEST, "Invalid field: about must be health or breakers", {"field": "about"})
        return self._read(about)

    async def read_all(self, about: str) -> Sequence[Mapping[str, Any]]:
        """The states of each instance; only those of this one if there is no answer."""
        return await self._peers.ask_all(READ_STATES, {"about": about}) or [self._read(about)]

    def _read(self, about: str) -> dict[str, Any]:
        node = {"router_node_id": self.node_id}
        if about == HEALTH:
            return {**node, "health": self._health.health()}
        states, providers = self._breakers.extension_states(), self._breakers.provider_states()
        return {**node, "states": _drop_absent(states), "providers": _drop_absent(providers)}


def _drop_absent(states: States) -> dict[str, dict[str, object]]:
    return {name: drop_absent(state) for name, state in states.items()}
