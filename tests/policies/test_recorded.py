"""Recorded decisions of both strategies are computed again from what they saw: bit for bit, and
without any difference.
"""

import pytest
from msgspec.structs import replace

from router.contracts.decision import Decision, Refusal, RouteRequest
from router.decide.model import DecisionRecorder
from router.policies.model import Policy, RecordedDecision, reevaluate
from router.policies.model.measurements import Measurements
from tests.support.measurements import TENANT, Simulation, SomeMeasurements
from tests.support.policy import a_policy, a_provider, a_request

FOUR = tuple(
    a_provider(name, weight, expected_cost=0.02)
    for name, weight in (("a", 10), ("b", 20), ("c", 30), ("d", 40))
)
STRATEGIES = (
    {"type": "least_latency", "explore": 0.05},
    {"type": "cheapest", "within": {"p95_latency_ms": 90, "success_rate": 0.9}},
)
COUNTS = [1_000, pytest.param(20_000, marks=pytest.mark.matrix)]


def work(provider: str, at: float) -> tuple[float, bool]:
    """Slower and cheaper at times, and now and then a failure."""
    noise = at * 7919 % 1
    return 0.02 + 0.1 * noise * (1 + "abcd".index(provider)), noise < 0.97


class RecordedSimulation(Simulation):
    """Every decision goes by the recorder."""

    def __init__(self, policy: Policy, entries: int) -> None:
        super().__init__(policy, work)
        self.recorder = DecisionRecorder(
            frozenset({TENANT}),
            entries,
            today=self.clock.today,
            figures=self.instances[0].figures_of,
        )

    def evaluate(self, request: RouteRequest, measurements: Measurements) -> Decision | Refusal:
        return self.recorder.evaluate(
            self.policy, request, figures=measurements.figures_of(TENANT), now=self.clock.at
        )


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_recorded_decisions_are_computed_again_without_a_difference(
    strategy: dict[str, object], count: int
) -> None:
    policy = a_policy(*FOUR, strategy=strategy)
    simulated = RecordedSimulation(policy, 2 * count)
    simulated.run((count + 1) / 100, cost=lambda name: 0.001 * (5 - "abcd".index(name)))
    cases = list(simulated.recorder.list_latest(TENANT, "default", 2 * count))
    assert len(cases) >= count
    assert [
        case.request.answer_id for case in cases if reevaluate(policy, case).answer != case.answer
    ] == []
    assert len({case.answer.reason for case in cases if isinstance(case.answer, Decision)}) > 1


def test_other_figures_than_the_recorded_ones_give_other_answers() -> None:
    """What makes the test above fail, if the record forgot the figures."""
    policy = a_policy(*FOUR, strategy=STRATEGIES[0])
    simulated = RecordedSimulation(policy, 1_000)
    simulated.run(5)
    cases = list(simulated.recorder.list_latest(TENANT, "default", 1_000))
    assert any(reevaluate(policy, _forget(case)).answer != case.answer for case in cases)


def _forget(case: RecordedDecision) -> RecordedDecision:
    return replace(case, figures={})


def test_a_decision_by_weight_is_recorded_with_the_figures_too() -> None:
    """So that a candidate with a strategy can be tried on it."""
    some = SomeMeasurements()
    some.report(times=9)
    recorder = DecisionRecorder(frozenset({TENANT}), figures=some.figures_of)
    policy = a_policy(*FOUR)
    recorder.evaluate(policy, a_request("r-1"), now=0.0)
    case = recorder.find(TENANT, request_id="r-1")
    assert case is not None
    assert case.figures["a"].samples == 9


def test_figures_of_very_many_providers_are_recorded_only_where_they_decide() -> None:
    some = SomeMeasurements()
    some.report("p0", times=9)
    many = tuple(a_provider(f"p{number}", 1) for number in range(51))
    for policy, kept in ((a_policy(*many), 0), (a_policy(*many, strategy=STRATEGIES[0]), 1)):
        recorder = DecisionRecorder(frozenset({TENANT}), figures=some.figures_of)
        recorder.evaluate(policy, a_request("r-1"), now=0.0)
        case = recorder.find(TENANT, request_id="r-1")
        assert case is not None
        assert len(case.figures) == kept
