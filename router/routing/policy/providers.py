"""The run-time state of all providers as one object: averages of latency and cost, circuit breakers, and what strategies choose by.

Results feed it, decisions read it. While all breakers of a tenant are closed, its states are the averages' own object: NO_STATES
when there are none, so that `evaluate` takes its fast path.
"""

from __future__ import annotations

from router.routing.measurements import Measurements
from router.routing.policy.averages import Averages
from router.routing.policy.breaker_rules import NEUTRAL, SUCCESS, classify_outcome
from router.routing.policy.breakers import ProviderBreakers
from router.routing.policy.states import ProviderStates


class ProviderTracker:
    """`results.ProviderFigures`, and the states of the decisions."""

    def __init__(self, averages: Averages, breakers: ProviderBreakers, measurements: Measurements | None = None) -> None:
        self.averages = averages
        self.breakers = breakers
        self.measurements = measurements if measurements is not None else Measurements()

    def observe(
        self,
        tenant_id: str,
        provider_id: str,
        *,
        latency_ms: int,
        cost: float,
        status: str,
        error_code: str | None,
        assignment_id: str,
        listed_cost: float,
    ) -> None:
        """Add one outcome. The caller reports each outcome once. `listed_cost`: what the policy expects of a success."""
        self.averages.observe(
            tenant_id, provider_id, latency_ms=latency_ms, cost=cost, status=status, error_code=error_code, listed_cost=listed_cost
        )
        self.breakers.observe(tenant_id, provider_id, latency_ms=latency_ms, cost=cost, status=status, error_code=error_code)
        outcome = classify_outcome(status, error_code)
        is_success = None if outcome is NEUTRAL else outcome is SUCCESS  # None: it says nothing about the provider
        self.measurements.on_result(tenant_id, provider_id, assignment_id, latency_ms, cost, is_success, listed_cost=listed_cost)

    def states_of(self, tenant_id: str) -> ProviderStates:
        """The tenant's providers at this moment."""
        known, shut = self.averages.states_of(tenant_id), self.breakers.find_not_closed(tenant_id)
        if shut is None:
            return known
        shut.averages = known
        return shut
