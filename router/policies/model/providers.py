"""The run-time state of all providers as one object: averages, circuit breakers, rate limits, and
what strategies choose by.

Results feed it, decisions read it. While all breakers of a tenant are closed, and no provider
limits it, its states are the averages' own object: NO_STATES when there are none, so that
`evaluate` takes its fast path.
"""

from __future__ import annotations

from math import inf

from router.contracts.decision import Decision
from router.contracts.failure_class import classify_outcome
from router.core.bounded_cache import BoundedCache
from router.policies.model.breakers import ProviderBreakers
from router.policies.model.limited_providers import LimitedProviders
from router.policies.model.measurements import Measurements
from router.policies.model.policy import DEFAULT_COST, PROBE
from router.policies.model.states import NO_STATES, AverageStates, ProviderState, ProviderStates

# -- The tracker.


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


# -- Moving averages of the latency and the cost of each (tenant, provider), learned from results.
#
# Only successes count: a refusal that came back in a millisecond must not make its provider look
# fast. Each new figure weighs `AVERAGE_WEIGHT`, so an average follows a change within a few dozen
# results. A figure is clipped before it counts, to an hour, a cost of 1e9 and `MAX_STEP` times the
# average, so that one wrong clock cannot move an average for long. A cost begins at what the policy
# expects, and moves from there by the same steps: one free result makes no provider free. Each
# instance keeps its own averages, a bounded number: the pair longest without a result is dropped
# first, those of a tenant above its share before others.

AVERAGE_WEIGHT = 0.1
MAX_STEP = 10.0  # one figure moves an average to at most 1.9 times of what it was
MAX_LATENCY_MS, MAX_COST = 3_600_000.0, 1e9
SUCCESS = "success"


class Averages:
    """At most `limit` pairs. Results feed it (`observe`), decisions read it (`states_of`)."""

    def __init__(self, limit: int = 20_000, weight: float = AVERAGE_WEIGHT) -> None:
        self._weight = weight
        self._tenants: dict[str, AverageStates] = {}
        # longest without a result first
        self._pairs: BoundedCache[tuple[str, str], bool] = BoundedCache(limit, self._forget)

    def states_of(self, tenant_id: str) -> ProviderStates:
        """The tenant's providers; the object NO_STATES when no average is known, so that `evaluate`
        takes its fast path.
        """
        return self._tenants.get(tenant_id, NO_STATES)

    def observe(
        self,
        tenant_id: str,
        provider_id: str,
        *,
        latency_ms: int,
        cost: float,
        status: str,
        error_code: str | None,
        listed_cost: float = DEFAULT_COST,
    ) -> None:
        """Add one outcome. The caller reports each outcome once. `listed_cost`: what the policy
        expects.
        """
        if status != SUCCESS:
            return
        states = self._tenants.get(tenant_id)
        if states is None:
            states = self._tenants[tenant_id] = AverageStates()
        before = states.get(provider_id) or ProviderState()
        states[provider_id] = ProviderState(
            latency_ms=self._average(before.latency_ms, latency_ms, MAX_LATENCY_MS),
            cost=self._average(listed_cost if before.cost is None else before.cost, cost, MAX_COST),
            samples=before.samples + 1,
        )
        states.learned.clear()
        pair = tenant_id, provider_id
        if self._pairs.get(pair, 0.0) is None:  # seldom; else it is the most recent one now
            self._pairs.put(pair, True, inf, 0.0, owner=tenant_id)

    def _average(self, average: float | None, figure: float, most: float) -> float:
        figure = min(float(figure), most)
        if average is None:
            return figure
        clipped = min(figure, MAX_STEP * average) if average > 0 else figure
        return average + self._weight * (clipped - average)

    def _forget(self, pair: tuple[str, str]) -> None:
        tenant_id, provider_id = pair
        del self._tenants[tenant_id][provider_id]
        self._tenants[tenant_id].learned.clear()
        if not self._tenants[tenant_id]:
            del self._tenants[tenant_id]

    def __len__(self) -> int:
        return len(self._pairs)
