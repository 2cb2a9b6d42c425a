"""What providers cost and how long they take, learned from results: moving averages for each (tenant, provider).

Only a success says what the next one will take; a refusal that came back in a millisecond must not make its provider look
fast. Each new figure weighs `WEIGHT`, so an average follows a change within a few dozen results. Kept by this instance
alone, and bounded: the pair longest without a result is forgotten first, of a tenant above its share before those of others.
"""

from __future__ import annotations

from math import inf

from router.memory import Memory
from router.policy.states import NO_STATES, ProviderState, ProviderStates

WEIGHT = 0.1
SUCCESS = "success"


class Averages:
    """At most `limit` pairs. Fed by results (`observe`), asked by decisions (`states_of`)."""

    def __init__(self, limit: int = 20_000, weight: float = WEIGHT) -> None:
        self._weight = weight
        self._tenants: dict[str, dict[str, ProviderState]] = {}
        self._pairs: Memory[tuple[str, str], bool] = Memory(limit, self._forget)  # longest without a result first

    def states_of(self, tenant_id: str) -> ProviderStates:
        """The tenant's providers; NO_STATES itself when nothing is known, so that the engine's short way stays open."""
        return self._tenants.get(tenant_id, NO_STATES)

    def observe(self, tenant_id: str, provider_id: str, *, latency_ms: int, cost: float, status: str, error_code: str | None) -> None:
        """One outcome, once."""
        if status != SUCCESS:
            return
        states = self._tenants.setdefault(tenant_id, {})
        before = states.get(provider_id)
        states[provider_id] = ProviderState(
            latency_ms=self._moved(before.latency_ms if before is not None else None, latency_ms),
            cost=self._moved(before.cost if before is not None else None, cost),
        )
        self._pairs.keep((tenant_id, provider_id), True, inf, 0.0, owner=tenant_id)

    def _moved(self, average: float | None, figure: float) -> float:
        return float(figure) if average is None else average + self._weight * (figure - average)

    def _forget(self, pair: tuple[str, str]) -> None:
        tenant_id, provider_id = pair
        del self._tenants[tenant_id][provider_id]
        if not self._tenants[tenant_id]:
            del self._tenants[tenant_id]

    def __len__(self) -> int:
        return len(self._pairs)
