"""Breakers by name: made when first asked for, as many as the book may hold; the one longest unused goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping

from router.breakers.gate import Changed, CircuitBreaker
from router.breakers.rules import BreakerRules
from router.breakers.standing import BreakerSnapshot
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
        changed: Changed = lambda _: None,
    ) -> None:
        self._rules_of = rules_of
        self._limit = limit
        self._now = now
        self._today = today
        self._changed = changed
        self._gates: OrderedDict[str, CircuitBreaker] = OrderedDict()

    def gate(self, name: str) -> CircuitBreaker:
        """The breaker of this name."""
        gate = self._gates.get(name)
        if gate is None:
            return self._made(name)
        self._gates.move_to_end(name)
        return gate

    def standings(self) -> Mapping[str, BreakerSnapshot]:
        return {name: gate.standing for name, gate in self._gates.items()}

    def keep(self, names: Collection[str]) -> None:
        """Forget every other one: who comes back by its name begins anew."""
        for name in [name for name in self._gates if name not in names]:
            del self._gates[name]

    def _made(self, name: str) -> CircuitBreaker:
        gate = self._gates[name] = CircuitBreaker(name, self._rules_of(name), now=self._now, today=self._today, changed=self._changed)
        if len(self._gates) > self._limit:
            self._gates.popitem(last=False)
        return gate

    def __len__(self) -> int:
        return len(self._gates)
