"""The run-time state of all providers as one object: averages, circuit breakers, rate limits, and
what strategies choose by.

Results feed it, decisions read it. While all breakers of a tenant are closed, and no provider
limits it, its states are the averages' own object: NO_STATES when there are none, so that
`evaluate` takes its fast path.
"""

from __future__ import annotations

from router.contracts.decision import Decision
from router.contracts.failure_class import classify_outcome
from router.policies.model.averages import Averages
from router.policies.model.breakers import ProviderBreakers
from router.policies.model.limited_providers import LimitedProviders
from router.policies.model.measurements import Measurements
from router.policies.model.plan import PROBE
from router.policies.model.states import ProviderStates


class ProviderTracker:
    """`results.ProviderFigures`, and the states of the decisions. `limits` share
    `breakers.blocked`.
    """

    def __init__(
        self,
        averages: Averages,
        breakers: ProviderBreakers,
        limits: LimitedProviders,
        measurements: Measurements | None = None,
    ) -> None:
        self.averages = averages
        self.breakers = breakers
        self.limits = limits
        self.measurements = measurements if measurements is not None else Measurements()
        self.figures_of = self.measurements.figures_of

    def observe(
        self,
        tenant_id: str,
        provider_id: str,
        *,
        latency_ms: int,
        cost: float,
        status: str,
        error_code: str | None,
        retry_after_ms: int | None,
        assignment_id: str,
        listed_cost: float,
    ) -> None:
        """Add one outcome. The caller reports each outcome once. `listed_cost`: what the policy
        expects of a success.
        """
        self.averages.observe(
            tenant_id,
            provider_id,
            latency_ms=latency_ms,
            cost=cost,
            status=status,
            error_code=error_code,
            listed_cost=listed_cost,
        )
        has_opened = self.breakers.observe(
            tenant_id,
            provider_id,
            latency_ms=latency_ms,
            cost=cost,
            status=status,
            error_code=error_code,
        )
        outcome = classify_outcome(status, error_code)
        self.limits.observe(tenant_id, provider_id, outcome, latency_ms, retry_after_ms)
        self.measurements.on_result(
            tenant_id,
            provider_id,
            assignment_id,
            latency_ms,
            cost,
            outcome,
            listed_cost=listed_cost,
        )
        if has_opened:
            self.measurements.on_opened(tenant_id, provider_id)

    def states_of(self, tenant_id: str) -> ProviderStates:
        """The tenant's providers at this moment."""
        known, shut = self.averages.states_of(tenant_id), self.breakers.find_not_closed(tenant_id)
        if shut is None:
            return known
        if shut.limits:
            self.limits.drop_ended(tenant_id)
        shut.averages = known
        return shut

    def on_decision(self, tenant_id: str, decision: Decision) -> None:
        """A decision that may be a probe: of a breaker, after a rate limit, or of a provider that
        fails.
        """
        self.breakers.on_decision(tenant_id, decision)
        self.limits.on_decision(tenant_id, decision.provider_id)
        if decision.reason == PROBE:
            self.measurements.on_probe(tenant_id, decision.provider_id)
