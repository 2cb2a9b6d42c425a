"""The run-time state of all providers as one object: averages of latency and cost, and circuit breakers.

Results feed it, decisions read it. While all breakers of a tenant are closed, its states are the averages' own object: NO_STATES
when there are none, so that `evaluate` takes its fast path.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from router.contracts.decision import Decision
from router.routing.breakers import CircuitBreaker
from router.routing.policy.averages import Averages
from router.routing.policy.breakers import ProviderBreakers
from router.routing.policy.states import ProviderState, ProviderStates


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
        return known if shut is None else _StatesBehindBreakers(known, shut)

    def on_decision(self, tenant_id: str, decision: Decision) -> None:
        """Report a decision: if the provider's breaker is half open, the decision is a probe."""
        self.breakers.on_decision(tenant_id, decision)


class _StatesBehindBreakers(Struct, frozen=True):
    """The averages, with the end of the block for each provider whose breaker is not closed."""

    averages: ProviderStates
    breakers: Mapping[str, CircuitBreaker]

    def get(self, provider_id: str, /) -> ProviderState | None:
        state, breaker = self.averages.get(provider_id), self.breakers.get(provider_id)
        if breaker is None:
            return state
        return replace(state or ProviderState(), blocked_until=breaker.block_end())
