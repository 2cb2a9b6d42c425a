"""Measurements of providers on clocks that stand still, and providers whose results take as long as
they are told.
"""

from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

from msgspec.structs import replace

from router.contracts.decision import Decision, Refusal, RouteRequest
from router.contracts.failure_class import PROVIDER, FailureClass
from router.policies.model import PROBE, Policy, evaluate
from router.policies.model.measurements import LearnedFigures, Measurements
from tests.support.breakers import FrozenClocks
from tests.support.policy import a_request

TENANT = "acme"


class SomeMeasurements(Measurements):
    """Measurements with a clock, fed by hand."""

    def __init__(self, clock: FrozenClocks | None = None, limit: int = 1000) -> None:
        self.clock = clock or FrozenClocks()
        super().__init__(limit, self.clock, self.clock.today)
        self._numbers = count()

    def report(
        self,
        provider: str = "a",
        times: int = 1,
        *,
        latency_ms: float = 100,
        cost: float = 0.01,
        ok: bool = True,
    ) -> None:
        """Results of assignments that another instance made."""
        for _ in range(times):
            self.on_result(
                TENANT,
                provider,
                f"{next(self._numbers):012}-unknown",
                latency_ms,
                cost,
                class_of(ok),
            )

    def figures(self, provider: str = "a") -> LearnedFigures:
        self._tenants[TENANT].expire()
        return self.figures_of(TENANT)[provider]


class Simulation:
    """Requests at a steady rate over instances that share a clock; each decision becomes an
    assignment, and its result comes later.

    `work` says of a provider at a moment: seconds until the result, and whether it is a success.
    Results go to the instances in turn.
    """

    def __init__(
        self, policy: Policy, work: Callable[[str, float], tuple[float, bool]], instances: int = 1
    ) -> None:
        self.clock = FrozenClocks()
        self.instances = [SomeMeasurements(self.clock) for _ in range(instances)]
        self.policy = policy
        self._work = work
        self._results: list[tuple[float, int, str, str, bool]] = []
        self._numbers = count()

    def run(
        self, seconds: float, rate: float = 100.0, cost: Callable[[str], float] = lambda _: 0.01
    ) -> list[Counter[str]]:
        """The choices of each instance."""
        chosen = [Counter[str]() for _ in self.instances]
        until = self.clock.at + seconds
        shared_at = self.clock.at
        while self.clock.at < until:
            self.clock.at += 1 / rate
            self._deliver(cost)
            if self.clock.at >= shared_at + 0.25:
                shared_at = self.clock.at
                self.share()
            number = next(self._numbers)
            self._choose(number, chosen[number % len(self.instances)])
        return chosen

    def share(self) -> None:
        records = [
            (stats, stats.build_record(TENANT, "node", f"life-{at}"))
            for at, stats in enumerate(self.instances)
        ]
        for owner, record in records:
            for instance in self.instances:
                if instance is not owner and record is not None:
                    instance.apply(record, 0.0)

    def _choose(self, number: int, chosen: Counter[str]) -> None:
        instance, name = self.instances[number % len(self.instances)], f"{number:012}-request"
        decision = self.evaluate(replace(a_request(name), push_assignment=True), instance)
        assert isinstance(decision, Decision)
        if decision.reason == PROBE:
            instance.on_probe(TENANT, decision.provider_id)
        chosen[decision.provider_id] += 1
        instance.on_assigned(TENANT, decision.provider_id, name)
        seconds, ok = self._work(decision.provider_id, self.clock.at)
        heappush(self._results, (self.clock.at + seconds, number, decision.provider_id, name, ok))

    def evaluate(self, request: RouteRequest, measurements: Measurements) -> Decision | Refusal:
        return evaluate(
            self.policy, request, figures=measurements.figures_of(TENANT), now=self.clock.at
        )

    def _deliver(self, cost: Callable[[str], float]) -> None:
        while self._results and self._results[0][0] <= self.clock.at:
            at, number, provider, name, ok = heappop(self._results)
            instance = self.instances[(number // len(self.instances)) % len(self.instances)]
            seconds, _ = self._work(provider, at)
            self.report(instance, provider, name, seconds * 1000, cost(provider), ok=ok)

    def report(
        self,
        instance: SomeMeasurements,
        provider: str,
        name: str,
        latency_ms: float,
        cost: float,
        *,
        ok: bool,
    ) -> None:
        instance.on_result(TENANT, provider, name, latency_ms, cost, class_of(ok))


def class_of(ok: bool) -> FailureClass | None:
    return None if ok else PROVIDER
