"""Circuit breakers over NATS: those of extensions, this instance's own, and those of providers, which instances share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from router.admin.asked import Asked
from router.admin.service import Answer, Service, present

States = Mapping[str, Mapping[str, object]]


class BreakerBook(Protocol):
    def extension_states(self) -> States:
        """`{id: {extension_id, state, opened_at_ms, failure_count, error_rate}}`."""

    def provider_states(self) -> States:
        """`{"{tenant}/{provider}": {tenant_id, provider_id, …}}`."""


class BreakerServices:
    """`node_id`: whose counts these are."""

    def __init__(self, book: BreakerBook, node_id: str) -> None:
        self._book = book
        self._node_id = node_id

    def all(self) -> tuple[Service, ...]:
        state = "{…, state closed | open | half_open, opened_at_ms?, failure_count, error_rate}"
        gives = f"{{ok, states{{extension_id: {state}}}, providers{{tenant/provider: {state}}}, router_node_id}}"
        return (Service("get_circuit_breaker_states", "Every circuit breaker", "{}", gives, self.states),)

    async def states(self, asked: Asked) -> Answer:
        return {
            "states": {name: present(state) for name, state in self._book.extension_states().items()},
            "providers": {name: present(state) for name, state in self._book.provider_states().items()},
            "router_node_id": self._node_id,
        }
