"""A choice by learned figures: the same from the same figures, the better of two, the cheapest
within objectives, and some of all.
"""

from collections import Counter
from collections.abc import Mapping

import pytest

from router.contracts.decision import Decision
from router.policies.model import Policy, TraceStep, evaluate
from router.policies.model.measurements import LearnedFigures, TenantFigures
from router.policies.model.policy import (
    DRAW_RANGE,
    REASONS_BY_STRATEGY,
    RoutingStrategy,
    cumulative_weights,
    weighted_hash,
)
from router.policies.model.strategy import WAYS, check_ways, draw_two, excess_of
from tests.support.policy import SHUT, a_policy, a_provider, a_request, errors_of

NAMES = ("a", "b", "c", "d")
FOUR = tuple(a_provider(name, 25) for name in NAMES)
LEAST = {"type": "least_latency", "explore": 0}
CHEAP = {"type": "cheapest", "explore": 0}
OBJECTIVES = {"p95_latency_ms": 1000, "success_rate": 0.95}


def scores(**values: float) -> dict[str, LearnedFigures]:
    return {name: LearnedFigures(samples=99, score=value) for name, value in values.items()}


def choices(
    policy: Policy, figures: Mapping[str, LearnedFigures], count: int = 2000, **known: object
) -> Counter[tuple[str, str]]:
    made = (
        evaluate(policy, a_request(f"r-{number}"), figures=figures, now=0.0, **known)
        for number in range(count)
    )  # type: ignore[arg-type]
    return Counter((one.provider_id, one.reason) for one in made if isinstance(one, Decision))


def test_the_worst_of_four_is_never_the_better_of_two_and_the_best_always_is() -> None:
    found = choices(a_policy(*FOUR, strategy=LEAST), scores(a=1.0, b=2.0, c=3.0, d=4.0))
    assert {reason for _, reason in found} == {"least_latency"}
    assert ("d", "least_latency") not in found
    assert 850 < found["a", "least_latency"] < 1150  # half of the pairs hold it


def test_without_figures_the_first_of_the_two_is_chosen_which_is_the_weighted_draw() -> None:
    weighted = choices(a_policy(*FOUR), {})
    least = choices(a_policy(*FOUR, strategy=LEAST), {})
    assert {name: count for (name, _), count in weighted.items()} == {
        name: count for (name, _), count in least.items()
    }


def test_what_is_in_flight_counts_before_there_are_results() -> None:
    busy = {"a": LearnedFigures(in_flight=50)}
    found = choices(a_policy(a_provider("a", 50), a_provider("b", 50), strategy=LEAST), busy)
    assert set(found) == {("b", "least_latency")}


def test_a_share_of_all_is_explored_by_every_provider_alike() -> None:
    found = choices(
        a_policy(*FOUR, strategy={"type": "least_latency", "explore": 0.2}),
        scores(a=1.0, b=2.0, c=3.0, d=4.0),
        4000,
    )
    explored = {name: count for (name, reason), count in found.items() if reason == "explore"}
    assert set(explored) == set(NAMES)
    assert 640 < sum(explored.values()) < 960
    assert all(120 < count < 280 for count in explored.values())


def test_a_single_provider_is_not_explored() -> None:
    assert set(
        choices(a_policy(a_provider("a"), strategy={"type": "least_latency", "explore": 1}), {}, 10)
    ) == {("a", "least_latency")}


@pytest.mark.parametrize(
    "weights",
    [
        (1.0,),
        (1.0, 1.0),
        (100.0, 1e-300),
        (1e-300, 100.0),
        (5.0, 0.001, 5.0),
        tuple(map(float, range(1, 60))),
    ],
)
def test_the_two_are_different_and_the_first_is_the_weighted_one(
    weights: tuple[float, ...],
) -> None:
    bounds = cumulative_weights(weights)
    for point in (
        0,
        1,
        DRAW_RANGE - 1,
        *(weighted_hash(1, "acme", f"r-{number}") for number in range(300)),
    ):
        one, other = draw_two(bounds, point)
        assert 0 <= other < len(weights)
        assert one != other or len(weights) == 1 or max(weights) / sum(weights) > 0.999


def figures(cost: float, p95: float = 100.0, success: float = 1.0) -> LearnedFigures:
    return LearnedFigures(
        samples=99, score=1.0, cost=cost, p95_latency_ms=p95, recent_success_rate=success
    )


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (
            {"a": figures(3.0), "b": figures(2.0), "c": figures(1.0), "d": figures(4.0)},
            ("c", "cheapest"),
        ),
        (
            {"a": figures(3.0), "b": figures(2.0), "c": figures(1.0, p95=1001), "d": figures(4.0)},
            ("b", "cheapest"),
        ),
        (
            {
                "a": figures(3.0),
                "b": figures(2.0, success=0.9),
                "c": figures(1.0, p95=1001),
                "d": figures(4.0),
            },
            ("a", "cheapest"),
        ),
        (
            {
                name: figures(1.0, p95=limit)
                for name, limit in zip(NAMES, (4000, 3000, 2000, 5000), strict=True)
            },
            ("c", "objectives_missed"),
        ),
        # 0.01 by default
        (
            {"a": figures(0.02), "b": figures(0.03), "c": figures(0.04), "d": LearnedFigures()},
            ("d", "cheapest"),
        ),
    ],
)
def test_the_cheapest_that_meets_the_objectives_else_the_one_that_misses_them_least(
    known: dict[str, LearnedFigures], expected: tuple[str, str]
) -> None:
    policy = a_policy(*FOUR, strategy={**CHEAP, "within": OBJECTIVES})
    assert set(choices(policy, known, 50)) == {expected}
    kept = TenantFigures()
    kept.update(known)
    assert set(choices(policy, kept, 50)) == {expected}  # chosen once, then kept


def test_the_kept_choice_of_the_cheapest_ends_with_the_figures_that_it_was_made_of() -> None:
    policy, kept = a_policy(*FOUR, strategy=CHEAP), TenantFigures()
    kept.update({"a": figures(1.0), "b": figures(2.0), "c": figures(3.0), "d": figures(4.0)})
    assert set(choices(policy, kept, 5)) == {("a", "cheapest")}
    kept["d"] = figures(0.5)
    kept.choices.clear()
    assert set(choices(policy, kept, 5)) == {("d", "cheapest")}


def test_an_open_breaker_is_left_out_of_both_and_a_trace_names_the_candidates_with_their_scores() -> (
    None
):
    trace: list[TraceStep] = []
    policy, known = a_policy(*FOUR, strategy=LEAST), scores(a=1.0, b=2.0, c=3.0, d=4.0)
    answer = evaluate(
        policy, a_request("r-1"), states={"a": SHUT, "b": SHUT}, figures=known, now=0.0, trace=trace
    )
    assert isinstance(answer, Decision)
    assert (answer.provider_id, answer.reason) == ("c", "least_latency")
    steps = [(step.stage, step.subject, step.verdict) for step in trace if step.stage != "eligible"]
    assert sorted(steps[:2]) == [("candidate", "c", "score 3"), ("candidate", "d", "score 4")]
    assert steps[2] == ("least_latency", "c", "chosen")


def test_a_trace_names_the_only_candidate_once() -> None:
    trace: list[TraceStep] = []
    policy = a_policy(a_provider("a"), strategy=LEAST)
    evaluate(policy, a_request("r-1"), figures=scores(a=2.0), now=0.0, trace=trace)
    compared = [(step.subject, step.verdict) for step in trace if step.stage == "candidate"]
    assert compared == [("a", "score 2")]


@pytest.mark.parametrize(
    ("strategy", "path"),
    [
        ({"type": "fastest"}, "strategy.type"),
        ({}, "strategy.type"),
        ({"type": "weighted", "explore": 0.1}, "strategy.explore"),
        ({"type": "least_latency", "within": OBJECTIVES}, "strategy.within"),
        ({"type": "least_latency", "explore": 1.1}, "strategy.explore"),
        ({"type": "cheapest", "within": {"p99": 1}}, "strategy.within.p99"),
        ({"type": "cheapest", "within": {"success_rate": 0}}, "strategy.within.success_rate"),
        ({"type": "cheapest", "objectives": {}}, "strategy.objectives"),
        ("cheapest", "strategy"),
    ],
)
def test_a_strategy_that_would_not_work_is_refused(strategy: object, path: str) -> None:
    document = {"version": "1.0", "providers": list(FOUR), "strategy": strategy}
    assert path in [where for where, _ in errors_of(document)]


def test_weighted_in_words_is_the_default() -> None:
    spoken, silent = a_policy(*FOUR, strategy={"type": "weighted"}), a_policy(*FOUR)
    assert spoken.strategy is None
    assert choices(spoken, scores(a=9.0)) == choices(silent, {})


def test_a_strategy_that_a_policy_may_name_and_that_chooses_in_no_way_is_an_error_by_name() -> None:
    check_ways(WAYS, REASONS_BY_STRATEGY)
    with pytest.raises(ValueError, match="differ in the strategies fastest"):
        check_ways(WAYS, {**REASONS_BY_STRATEGY, "fastest": ("fastest",)})
    with pytest.raises(ValueError, match="cheapest lacks explore, probe"):
        check_ways(WAYS, {**REASONS_BY_STRATEGY, "cheapest": ("cheapest",)})


@pytest.mark.parametrize(
    ("expected_ms", "learned", "excess"),
    [
        (None, None, 0.0),
        (500, None, 0.5),
        (500, figures(1.0, p95=2000.0), 2.0),
        (500, figures(1.0, p95=100.0, success=0.19), 5.0),
    ],
)
def test_how_far_the_objectives_are_missed_is_told_by_the_one_that_is_missed_most(
    expected_ms: float | None, learned: LearnedFigures | None, excess: float
) -> None:
    policy = a_policy(a_provider("a", expected_latency_ms=expected_ms), strategy=CHEAP)
    strategy = RoutingStrategy("cheapest", p95_latency_ms=1000, success_rate=0.95)
    known = {} if learned is None else {"a": learned}
    assert excess_of(strategy, policy.providers[0], known) == pytest.approx(excess)
