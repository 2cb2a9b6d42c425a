"""What the router learns from results: each known assignment moves the figures of its own provider, once.

A result is input: a worker may name any tenant and any provider in it, and may send it again with every status. So
the figures and the breakers get a result only if its assignment is known, they get the provider that the assignment
names, and they get one outcome for each assignment, the first. A worker that repeats itself, or forges results, changes nothing. The
memory holds known assignments only, so a flood of invented ids cannot push one out of it.
"""

from __future__ import annotations

from typing import Protocol

from router.contracts.assignment import Assignment
from router.contracts.result import ExecResult
from router.core.bounded_cache import BoundedCache
from router.core.clock import Clock, steady

DAY_S = 86_400.0


class ProviderFigures(Protocol):
    """The providers' moving averages and their breakers: fed once for each assignment."""

    def observe(self, tenant_id: str, provider_id: str, *, latency_ms: int, cost: float, status: str, error_code: str | None) -> None: ...


class FirstResults:
    """The assignments whose first result was used, for `keep_s` each, at most `limit`: hashes of about 200 bytes each."""

    def __init__(self, figures: ProviderFigures, limit: int = 100_000, keep_s: float = DAY_S, clock: Clock = steady) -> None:
        self._figures = figures
        self._keep_s = keep_s
        self._clock = clock
        self._taught: BoundedCache[int, bool] = BoundedCache(limit)

    def learn_from(self, known: Assignment, result: ExecResult) -> None:
        """Move the provider's figures if this is the assignment's first result."""
        now, key = self._clock(), hash(known.assignment_id)
        if self._taught.get(key, now) is not None:
            return
        self._taught.put(key, True, now + self._keep_s, now)
        self._figures.observe(
            known.tenant_id,
            known.provider_id,
            latency_ms=result.latency_ms,
            cost=result.cost,
            status=result.status,
            error_code=result.error_code,
        )

    def __len__(self) -> int:
        return len(self._taught)
