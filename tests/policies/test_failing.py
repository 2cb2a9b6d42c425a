"""A provider most of whose results fail is left out, but for a bounded share of probes, and is back
soon after it recovers.
"""

from itertools import count

import pytest

from router.contracts.decision import Decision, Refusal, RouteRequest
from router.contracts.failure_class import FailureClass
from router.policies.model import Averages, ProviderTracker, evaluate
from router.policies.model.measurements import ErrorCounts, Measurements
from tests.policies.test_choices import NAMES, Trouble, share
from tests.support.breakers import SomeProviders
from tests.support.measurements import TENANT, Simulation, SomeMeasurements
from tests.support.policy import a_policy, a_provider

PROBE_SHARE = 1 / 75  # as the page says, and the figures of the tests below
RATE = 25.0  # requests a second of one instance
COSTS = {"a": 0.001, "b": 0.002, "c": 0.003, "d": 0.004}
FOUR = tuple(a_provider(name, 25, expected_cost=COSTS[name]) for name in NAMES)
STRATEGIES = [
    {"type": "least_latency"},
    {"type": "cheapest"},
    {"type": "cheapest", "within": {"success_rate": 0.9}},
    {"type": "cheapest", "within": {"success_rate": 0.9, "p95_latency_ms": 1000}, "explore": 0.2},
]


@pytest.mark.parametrize("instances", [1, 2])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_who_always_fails_has_few_requests_and_is_back_within_ten_seconds(
    strategy: dict[str, object], instances: int
) -> None:
    trouble = Trouble()
    simulated = Simulation(a_policy(*FOUR, strategy=strategy), trouble, instances)
    simulated.run(30, cost=COSTS.__getitem__)
    usual = share(simulated.run(10, cost=COSTS.__getitem__), "a")
    trouble.failing = "a"
    simulated.run(5, cost=COSTS.__getitem__)
    assert share(simulated.run(60, cost=COSTS.__getitem__), "a") <= 0.02
    trouble.failing = None
    simulated.run(8, cost=COSTS.__getitem__)
    assert share(simulated.run(2, cost=COSTS.__getitem__), "a") >= usual / 2


@pytest.mark.parametrize("strategy", STRATEGIES[:2])
def test_where_all_fail_all_are_tried_and_the_first_to_recover_is_found(
    strategy: dict[str, object],
) -> None:
    well: set[str] = set()
    simulated = Simulation(a_policy(*FOUR, strategy=strategy), lambda name, _: (0.01, name in well))
    simulated.run(10)
    well.add("c")
    simulated.run(8)
    assert share(simulated.run(2), "c") >= 0.9


def test_one_success_between_failures_is_no_recovery() -> None:
    some = SomeMeasurements()
    some.report(times=20, ok=False)
    some.report()
    some.report(ok=False)
    some.report()
    assert some.figures().is_failing
    some.report()
    assert not some.figures().is_failing
    assert some.figures().recent_success_rate is None  # too few since it has recovered
    some.report(times=5, ok=False)
    assert not some.figures().is_failing
    some.report(ok=False)
    assert some.figures().is_failing


def test_few_results_or_some_failures_make_none_failing() -> None:
    some = SomeMeasurements()
    some.report("new", 4, ok=False)
    for _ in range(50):
        some.report("often", 2)
        some.report("often", ok=False)
    assert not some.figures("new").is_failing
    assert not some.figures("often").is_failing


def test_a_probe_is_due_a_second_after_the_last_one_and_overdue_after_a_minute_of_silence() -> None:
    some = SomeMeasurements()
    some.report(times=20, ok=False)
    assert some.figures().probe_share == PROBE_SHARE
    some.on_probe(TENANT, "a")
    assert some.figures_of(TENANT)["a"].probe_share == 0
    for at, due in ((0.99, 0), (1, PROBE_SHARE), (59.9, PROBE_SHARE), (60, 1)):
        some.clock.at = at
        assert some.figures_of(TENANT)["a"].probe_share == due
    some.report()
    assert some.figures_of(TENANT)["a"].probe_share == 0.1  # after the first success


def test_a_probe_is_overdue_after_as_many_requests_without_one_as_chance_rarely_takes() -> None:
    some = SomeMeasurements()
    some.report(times=20, ok=False)
    for number in range(110):
        assert some.figures().probe_share == PROBE_SHARE
        some.on_assigned(TENANT, "b", f"b-{number}")
    assert some.figures_of(TENANT)["a"].probe_share == 1
    some.on_probe(TENANT, "a")
    some.clock.at += 1
    assert some.figures_of(TENANT)["a"].probe_share == PROBE_SHARE


def test_several_that_fail_are_overdue_in_turn() -> None:
    """Together they have no more probes than one has."""
    some = SomeMeasurements()
    for name in ("a", "c"):
        some.report(name, times=20, ok=False)
    for number in range(219):
        some.on_assigned(TENANT, "b", f"b-{number}")
    assert some.figures().probe_share == PROBE_SHARE
    some.on_assigned(TENANT, "b", "b-last")
    assert some.figures_of(TENANT)["a"].probe_share == 1


@pytest.mark.parametrize("strategy", STRATEGIES[:3])
def test_behind_a_breaker_it_is_back_within_ten_seconds_too(strategy: dict[str, object]) -> None:
    """Its probes were drawn by chance alone; where the breaker opened before the success rate had
    fallen there was none for a minute.
    """
    slowest = 0.0
    for seed in range(40):
        simulated = GuardedSimulation(strategy, seed)
        simulated.run(10, RATE, cost=COSTS.__getitem__)
        simulated.trouble.failing = "a"
        simulated.run(5 + seed / 10, RATE, cost=COSTS.__getitem__)
        simulated.trouble.failing, well_at = None, simulated.clock.at
        while not simulated.is_back() and simulated.clock.at < well_at + 60:
            simulated.run(0.25, RATE, cost=COSTS.__getitem__)
        slowest = max(slowest, simulated.clock.at - well_at)
    assert slowest <= 10


@pytest.mark.parametrize("rate", [5, 25])
def test_a_failing_one_has_few_requests_at_any_rate(rate: float) -> None:
    trouble = Trouble()
    simulated = Simulation(a_policy(*FOUR, strategy=STRATEGIES[0]), trouble)
    simulated.run(100)
    trouble.failing = "a"
    simulated.run(20)
    assert share(simulated.run(4000 / rate, rate), "a") <= 0.02


def test_what_is_not_the_providers_fault_makes_it_neither_fail_nor_recover() -> None:
    some = SomeMeasurements()
    for which in (FailureClass.REQUEST, FailureClass.RATE_LIMIT, FailureClass.CANCELLED):
        for number in range(30):
            some.on_result(TENANT, "a", f"{which}-{number}", 1.0, 0.0, which)
    known = some.figures()
    assert (known.is_failing, known.samples, known.recent_success_rate) == (False, 0, None)
    assert some.errors_of(TENANT)["a"] == ErrorCounts(
        provider=0, request=30, rate_limit=30, cancelled=30
    )


def test_another_instance_learns_who_fails_and_who_has_recovered() -> None:
    one = SomeMeasurements()
    other = SomeMeasurements(one.clock)
    one.report(times=20, ok=False)
    _share(one, other)
    assert other.figures().is_failing
    other.report(times=20, ok=False)
    one.clock.at += 1
    one.report(times=9)
    _share(one, other)
    assert not other.figures().is_failing
    assert other.figures().recent_success_rate == 1


class GuardedSimulation(Simulation):
    """One instance with a breaker whose openings last three seconds."""

    def __init__(self, strategy: dict[str, object], seed: int) -> None:
        policy = a_policy(
            *FOUR, strategy=strategy, circuit_breaker={"enabled": True, "timeout_ms": 3000}
        )
        self.trouble = Trouble()
        super().__init__(policy, self.trouble)
        self._numbers = count(seed * 1_000_000)
        some = SomeProviders(policy, clock=self.clock)
        self._known = ProviderTracker(Averages(), some.breakers, some.limits, self.instances[0])

    def is_back(self) -> bool:
        return (
            not self.instances[0].figures().is_failing
            and self._known.breakers.find_not_closed(TENANT) is None
        )

    def evaluate(self, request: RouteRequest, measurements: Measurements) -> Decision | Refusal:
        known, figures = self._known, measurements.figures_of(TENANT)
        decided = evaluate(
            self.policy, request, states=known.states_of(TENANT), figures=figures, now=self.clock.at
        )
        if isinstance(decided, Decision):
            known.on_decision(TENANT, decided)
        return decided

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
        outcome = {
            "status": "success" if ok else "error",
            "error_code": None if ok else "503",
            "retry_after_ms": None,
        }
        self._known.observe(
            TENANT,
            provider,
            latency_ms=round(latency_ms),
            cost=cost,
            assignment_id=name,
            listed_cost=COSTS[provider],
            **outcome,
        )


def _share(one: SomeMeasurements, other: SomeMeasurements) -> None:
    record = one.build_record(TENANT, "node", "life-1")
    assert record is not None
    other.apply(record, 0.0)
