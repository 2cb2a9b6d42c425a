"""What is learned from results, and forgotten."""

import pytest

from router.contracts.decision import Decision
from router.policies.model import NO_STATES, Averages
from router.policies.model.narrowed import ProviderState, set_figures
from router.policies.model.policy import DEFAULT_COST


def observe(
    averages: Averages, tenant: str = "acme", provider: str = "openai", **given: object
) -> None:
    figures = {"latency_ms": 100, "cost": 0.01, "status": "success", "error_code": None, **given}
    averages.observe(tenant, provider, **figures)  # type: ignore[arg-type]


def test_a_tenant_without_results_has_the_states_that_cost_nothing() -> None:
    averages = Averages()
    observe(averages, tenant="other")
    assert averages.states_of("acme") is NO_STATES


def test_the_first_latency_is_the_average_and_later_ones_move_it() -> None:
    averages = Averages()
    observe(averages, latency_ms=100)
    observe(averages, latency_ms=200)
    state = averages.states_of("acme").get("openai")
    assert state is not None
    assert (state.latency_ms, state.samples) == (110.0, 2)


def test_a_cost_begins_at_what_the_policy_expects_and_each_success_moves_it() -> None:
    averages = Averages(weight=0.1)
    for moved in (0.018, 0.0162):  # down by a tenth at most, whatever it costs
        observe(averages, cost=0.0, listed_cost=0.02)
        state = averages.states_of("acme").get("openai")
        assert state is not None
        assert state.cost == pytest.approx(moved)


def test_a_provider_whose_cost_the_policy_does_not_name_begins_at_the_usual_one() -> None:
    averages = Averages(weight=0.1)
    observe(averages, cost=0.0)
    state = averages.states_of("acme").get("openai")
    assert state is not None
    assert state.cost == pytest.approx(0.9 * DEFAULT_COST)


def test_one_wrong_figure_moves_an_average_by_a_bounded_step() -> None:
    averages = Averages(weight=0.1)
    observe(averages, latency_ms=100, cost=1.0, listed_cost=1.0)
    observe(averages, latency_ms=1 << 60, cost=1e300)
    state = averages.states_of("acme").get("openai")
    assert state is not None
    assert (state.latency_ms, state.cost) == (pytest.approx(190.0), pytest.approx(1.9))


def test_the_first_figure_is_clipped_and_an_average_of_nothing_moves() -> None:
    averages = Averages(weight=0.1)
    observe(averages, latency_ms=1 << 62, cost=0.0, listed_cost=0.0)
    observe(averages, latency_ms=1 << 62, cost=1e300)
    state = averages.states_of("acme").get("openai")
    assert state is not None
    assert (state.latency_ms, state.cost) == (3_600_000, pytest.approx(1e8))


def test_only_a_success_says_what_the_next_will_take() -> None:
    averages = Averages()
    for status in ("error", "timeout", "cancelled"):
        observe(averages, status=status)
    assert averages.states_of("acme") is NO_STATES


def test_the_pair_longest_without_a_result_goes_first() -> None:
    averages = Averages(limit=2)
    for provider in ("a", "b", "a", "c"):
        observe(averages, provider=provider)
    states = averages.states_of("acme")
    assert (len(averages), states.get("b"), states.get("a") is not None) == (2, None, True)


def test_a_tenant_whose_last_pair_went_is_forgotten() -> None:
    averages = Averages(limit=1)
    observe(averages, tenant="acme")
    observe(averages, tenant="other")
    assert averages.states_of("acme") is NO_STATES


def test_one_tenant_with_many_providers_pushes_out_no_other_tenants_averages() -> None:
    averages = Averages(limit=640)
    observe(averages, tenant="quiet", provider="p")
    for number in range(5_000):
        observe(averages, tenant="loud", provider=f"p{number}")
    assert averages.states_of("quiet").get("p") is not None
    assert len(averages) <= 640 * 9 // 8


@pytest.mark.parametrize(
    ("latency_ms", "cost", "expected"),
    [
        (None, None, (50, 0.5)),
        (80.0, None, (80.0, 0.5)),
        (None, 0.2, (50, 0.2)),
        (8.0, 0.0, (8.0, 0.0)),
    ],
)
def test_a_decision_tells_what_was_learned_and_else_what_the_policy_lists(
    latency_ms: float | None, cost: float | None, expected: tuple[float, float]
) -> None:
    listed = Decision("a", "weighted", 100, 50, 0.5, {})
    told = set_figures(listed, ProviderState(latency_ms=latency_ms, cost=cost, samples=3))
    assert (told.expected_latency_ms, told.expected_cost) == expected
    assert set_figures(listed, None) is listed
