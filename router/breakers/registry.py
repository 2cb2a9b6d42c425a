"""Breakers by name: made when first asked for, as many as the book may hold; the one longest unused goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping

from router.breakers.breaker import CircuitBreaker, OnTransition
from router.breakers.rules import BreakerRules
from router.breakers.snapshot import BreakerSnapshot
from router.clock import Clock, steady, wall


class BreakerRegistry:
    """`rules_of` says a new breaker's rules. Forgetting one forgets an opening: `limit` is for names that strangers make up."""

    def __init__(
        self,
        rules_of: Callable[[str], BreakerRules] = lambda _: BreakerRules(),
        *,
        limit: int = 10_000,
        now: Clock = steady,
        today: Clock = wall,
        on_change: OnTransition = lambda _: None,
    ) -> None:
        self._rules_of = rules_of
        self._limit = limit
        self._now = now
        self._today = today
        self._on_change = on_change
        self._breakers: OrderedDict[str, CircuitBreaker] = OrderedDict()

    def get(self, name: str) -> CircuitBreaker:
        """The breaker of this name."""
        gate = self._breakers.get(name)
        if gate is None:
            return self._create(name)
        self._breakers.move_to_end(name)
        return gate

    def snapshots(self) -> Mapping[str, BreakerSnapshot]:
        return {name: gate.snapshot for name, gate in self._breakers.items()}

    def keep(self, names: Collection[str]) -> None:
        """Forget every other one: who comes back by its name begins anew."""
        for name in [name for name in self._breakers if name not in names]:
            del self._breakers[name]

    def _create(self, name: str) -> CircuitBreaker:
        rules = self._rules_of(name)
        breaker = self._breakers[name] = CircuitBreaker(name, rules, now=self._now, today=self._today, on_change=self._on_change)
        if len(self._breakers) > self._limit:
            self._breakers.popitem(last=False)
        return breaker

    def __len__(self) -> int:
        return len(self._breakers)
