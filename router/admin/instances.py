"""What every instance of the router says of its extensions and breakers, asked at once by the one that an operator asked.

    operator ── get_extension_health ──> one instance ── tell_states ──> all of them, this one too
                                              └── put together (`fleet_view`), with the node of each

Each instance calls extensions and counts failures for itself, so one alone tells a part. An instance that does not answer within
`admin.peers_wait_ms` is missing from `router_node_ids`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from router.admin.asked import Asked
from router.admin.declined import INVALID_REQUEST, Declined
from router.admin.service import INTERNAL_PREFIX, Answer, Service, present

HEALTH, BREAKERS = "health", "breakers"
TELL = INTERNAL_PREFIX + "tell_states"

States = Mapping[str, Mapping[str, object]]


class HealthBook(Protocol):
    def health(self) -> States:
        """Of every registered extension, by id, as this instance saw it."""


class BreakerBook(Protocol):
    def extension_states(self) -> States:
        """`{id: {extension_id, state, opened_at_ms, failure_count, error_rate}}`."""

    def provider_states(self) -> States:
        """`{"{tenant}/{provider}": {tenant_id, provider_id, …}}`."""


class AllInstances(Protocol):
    async def every(self, subject: str, asked: Mapping[str, object]) -> Sequence[Mapping[str, Any]]:
        """The answers that are ok and came in time."""


class Instances:
    """`node_id`: this one's."""

    def __init__(self, health: HealthBook, breakers: BreakerBook, node_id: str, peers: AllInstances) -> None:
        self.node_id = node_id
        self._health = health
        self._breakers = breakers
        self._peers = peers

    def all(self) -> tuple[Service, ...]:
        asks, gives = "{about: health | breakers}", "{ok, router_node_id, health or states, providers}"
        return (Service("tell_states", "What this instance counted", asks, gives, self.tell, INTERNAL_PREFIX, True),)

    async def tell(self, asked: Asked) -> Answer:
        """This instance's own part."""
        about = asked.text("about")
        if about not in (HEALTH, BREAKERS):
            raise Declined(INVALID_REQUEST, "Invalid field: about must be health or breakers", {"field": "about"})
        return self._own(about)

    async def ask(self, about: str) -> Sequence[Mapping[str, Any]]:
        """The part of each instance; this one's alone where no answer came."""
        return await self._peers.every(TELL, {"about": about}) or [self._own(about)]

    def _own(self, about: str) -> dict[str, Any]:
        node = {"router_node_id": self.node_id}
        if about == HEALTH:
            return {**node, "health": self._health.health()}
        states, providers = self._breakers.extension_states(), self._breakers.provider_states()
        return {**node, "states": _present(states), "providers": _present(providers)}


def _present(states: States) -> dict[str, dict[str, object]]:
    return {name: present(state) for name, state in states.items()}
