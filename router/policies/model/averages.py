"""Moving averages of the latency and the cost of each (tenant, provider), learned from results.

Only successes count: a refusal that came back in a millisecond must not make its provider look
fast. Each new figure weighs `AVERAGE_WEIGHT`, so an average follows a change within a few dozen
results. A figure is clipped before it counts, to an hour, a cost of 1e9 and `MAX_STEP` times the
average, so that one wrong clock cannot move an average for long. A cost begins at what the policy
expects, and moves from there by the same steps: one free result makes no provider free. Each
instance keeps its own averages, a bounded number: the pair longest without a result is dropped
first, those of a tenant above its share before others.
"""

from __future__ import annotations

from math import inf

from router.core.bounded_cache import BoundedCache
from router.policies.model.plan import DEFAULT_COST
from router.policies.model.states import NO_STATES, AverageStates, ProviderState, ProviderStates

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
