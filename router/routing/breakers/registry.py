"""Breakers by name: created at the first lookup, at most `limit`; the least recently used one is dropped first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping

from router.core.clock import Clock, steady
from router.routing.breakers.breaker import CircuitBreaker, OnTransition
from router.routing.breakers.values import BreakerRules, BreakerSnapshot


class BreakerRegistry:
    """`rules_of` gives a new breaker's rules. `limit` bounds names that clients invent; a dropped breaker loses its opening."""

    def __init__(
        self,
        rules_of: Callable[[str], BreakerRules] = lambda _: BreakerRules(),
        *,
        limit: int = 10_000,
        now: Clock = steady,
        on_change: OnTransition = lambda _: None,
    ) -> None:
        self._rules_of = rules_of
        self._limit = limit
        self._now = now
        self._on_change = on_change
        self._breakers: OrderedDict[str, CircuitBreaker] = OrderedDict()

    def get(self, name: str) -> CircuitBreaker:
        breaker = self._breakers.get(name)
        if breaker is None:
            return self._create(name)
        self._breakers.move_to_end(name)
        return breaker

    def snapshots(self) -> Mapping[str, BreakerSnapshot]:
        return {name: breaker.snapshot for name, breaker in self._breakers.items()}

    def keep(self, names: Collection[str]) -> None:
        """Drop every other breaker. A name that comes back starts with a closed breaker."""
        for name in [name for name in self._breakers if name not in names]:
            del self._breakers[name]

    def _create(self, name: str) -> CircuitBreaker:
        rules = self._rules_of(name)
        breaker = self._breakers[name] = CircuitBreaker(name, rules, now=self._now, on_change=self._on_change)
        if len(self._breakers) > self._limit:
            self._breakers.popitem(last=False)
        return breaker

    def __len__(self) -> int:
        return len(self._breakers)
