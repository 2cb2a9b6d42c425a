"""The run-time state of all providers as one object: averages of latency and cost, and circuit breakers.

Results feed it, decisions read it. While all breakers of a tenant are closed, its states are the averages' own object: NO_STATES
when there are none, so that `evaluate` takes its fast path.
"""

from __future__ import annotations

from router.routing.policy.averages import Averages
from router.routing.policy.breakers import ProviderBreakers
from router.routing.policy.states import ProviderStates


class ProviderTracker:
    """`results.ProviderFigures`, and the states of the decisions."""

    def __init__(self, averages: Averages, breakers: ProviderBreakers) -> None:
        self.averages = averages
        self.breakers = breakers

    def observe(self, tenant_id: str, provider_id: str, *, latency_ms: int, cost: float, status: str, error_code: str | None) -> None:
        """Add one outcome. The caller reports each outcome once."""
        self.averages.observe(tenant_id, provider_id, latency_ms=latency_ms, cost=cost, status=status, error_code=error_code)
        self.breakers.observe(tenant_id, provider_id, latency_ms=latency_ms, cost=cost, status=status, error_code=error_code)

    def states_of(self, tenant_id: str) -> ProviderStates:
        """The tenant's providers at this moment."""
        known, shut = self.averages.states_of(tenant_id), self.breakers.find_not_closed(tenant_id)
        if shut is None:
            return known
        shut.averages = known
        return shut
