"""Circuit breakers of all instances over NATS: those of extensions, each instance's own, and those of providers, which they share."""

from __future__ import annotations

from router.operations.admin.fleet_view import merge, merge_breakers, node_ids
from router.operations.admin.instances import BREAKERS, Instances
from router.operations.admin.request_fields import RequestFields
from router.operations.admin.service import Answer, Service


class BreakerServices:
    """The worst state of each breaker, and that of each node."""

    def __init__(self, instances: Instances) -> None:
        self._instances = instances

    def list_services(self) -> tuple[Service, ...]:
        state = "{…, state closed | open | half_open, opened_at_ms?, failure_count, error_rate, nodes{node_id: {state, …}}}"
        gives = f"{{ok, states{{extension_id: {state}}}, providers{{tenant/provider: {state}}}, router_node_id, router_node_ids[]}}"
        return (Service("get_circuit_breaker_states", "Every circuit breaker", "{}", gives, self.states),)

    async def states(self, asked: RequestFields) -> Answer:
        parts = await self._instances.read_all(BREAKERS)
        return {
            "states": merge(parts, "states", merge_breakers),
            "providers": merge(parts, "providers", merge_breakers),
            "router_node_id": self._instances.node_id,
            "router_node_ids": node_ids(parts),
        }
