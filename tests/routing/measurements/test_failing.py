"""A provider most of whose results fail is left out, but for a bounded share of probes, and is back soon after it recovers."""

import pytest

from router.contracts.failure_class import FailureClass
from router.routing.measurements import ErrorCounts
from router.routing.measurements.measured_provider import OVERDUE_S, PROBE_S, PROBE_SHARE
from tests.routing.measurements.test_choices import NAMES, Trouble, share
from tests.support.measurements import TENANT, Simulation, SomeMeasurements
from tests.support.policy import a_policy, a_provider

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
def test_who_always_fails_has_few_requests_and_is_back_within_ten_seconds(strategy: dict[str, object], instances: int) -> None:
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
def test_where_all_fail_all_are_tried_and_the_first_to_recover_is_found(strategy: dict[str, object]) -> None:
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
    some.clock.at += PROBE_S
    assert some.figures_of(TENANT)["a"].probe_share == PROBE_SHARE
    some.clock.at += OVERDUE_S
    assert some.figures_of(TENANT)["a"].probe_share == 1


def test_what_is_not_the_providers_fault_makes_it_neither_fail_nor_recover() -> None:
    some = SomeMeasurements()
    for which in (FailureClass.REQUEST, FailureClass.RATE_LIMIT, FailureClass.CANCELLED):
        for number in range(30):
            some.on_result(TENANT, "a", f"{which}-{number}", 1.0, 0.0, which)
    known = some.figures()
    assert (known.is_failing, known.samples, known.recent_success_rate) == (False, 0, None)
    assert some.errors_of(TENANT)["a"] == ErrorCounts(provider=0, request=30, rate_limit=30, cancelled=30)


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


def _share(one: SomeMeasurements, other: SomeMeasurements) -> None:
    record = one.build_record(TENANT, "node", "life-1")
    assert record is not None
    other.apply(record, 0.0)
