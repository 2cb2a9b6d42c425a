"""Who fails is left out of a strategy's choice: which tier is chosen from, which requests are
probes, and what a trace says.
"""

from collections import Counter

from msgspec.structs import replace

from router.contracts.decision import Decision
from router.policies.model import Policy, TraceStep, evaluate
from router.policies.model.measurements import LearnedFigures
from tests.support.policy import a_policy, a_provider, a_request

FAILS = LearnedFigures(samples=99, score=0.001, cost=0.001, is_failing=True)
DUE = replace(FAILS, probe_share=1 / 64)
OVERDUE = replace(FAILS, probe_share=1.0)
LEAST = {"type": "least_latency", "explore": 0}


def choices(
    policy: Policy, figures: dict[str, LearnedFigures], count: int = 2000, *, push: bool = True
) -> Counter[tuple[str, str]]:
    made = (
        evaluate(
            policy,
            replace(a_request(f"r-{number}"), push_assignment=push),
            figures=figures,
            now=0.0,
        )
        for number in range(count)
    )
    return Counter((one.provider_id, one.reason) for one in made if isinstance(one, Decision))


def of(*names: str, **sections: object) -> Policy:
    return a_policy(*(a_provider(name, 25) for name in names), **{"strategy": LEAST, **sections})  # type: ignore[arg-type]


def test_by_weight_no_provider_is_left_out() -> None:
    assert set(choices(of("a", "b", strategy=None), {"a": OVERDUE})) == {
        ("a", "weighted"),
        ("b", "weighted"),
    }


def test_probes_are_a_share_of_the_requests_that_are_pushed() -> None:
    policy = of("a", "b", "c")
    found = choices(policy, {"a": DUE, "b": DUE}, 6400)
    assert set(found) == {("a", "probe"), ("b", "probe"), ("c", "least_latency")}
    assert 60 < found["a", "probe"] + found["b", "probe"] < 150  # of all that fail together
    assert set(choices(policy, {"a": DUE, "b": DUE}, push=False)) == {("c", "least_latency")}
    assert set(choices(policy, {"a": FAILS, "b": FAILS})) == {("c", "least_latency")}


def test_one_that_is_overdue_is_probed_by_the_next_request() -> None:
    assert set(choices(of("a", "b"), {"a": OVERDUE}, 10)) == {("a", "probe")}


def test_where_a_whole_tier_fails_the_next_one_is_chosen_from_and_what_is_below_it_is_left_alone() -> (
    None
):
    tiers = {"a": 90, "b": 50, "c": 50, "d": 10}
    policy = a_policy(
        *(a_provider(name, 25, priority=tier) for name, tier in tiers.items()), strategy=LEAST
    )
    assert set(choices(policy, {"a": FAILS})) == {("b", "least_latency"), ("c", "least_latency")}
    assert set(choices(policy, {"a": FAILS, "d": OVERDUE})) == {
        ("b", "least_latency"),
        ("c", "least_latency"),
    }
    assert set(choices(policy, dict.fromkeys(tiers, FAILS))) == {("a", "least_latency")}


def test_a_session_leaves_a_provider_that_fails_while_another_one_does_not() -> None:
    policy = of("a", "b", sticky={"session_key": "user"})
    request = a_request("r-1", user="u")
    for known, expected in (
        ({"a": FAILS}, ("b", "least_latency")),
        ({"a": FAILS, "b": FAILS}, ("a", "sticky")),
    ):
        for trace in (None, []):
            answer = evaluate(policy, request, figures=known, now=0.0, remembered="a", trace=trace)  # type: ignore[arg-type]
            assert isinstance(answer, Decision)
            assert (answer.provider_id, answer.reason) == expected


def test_a_trace_says_who_is_left_out() -> None:
    trace: list[TraceStep] = []
    evaluate(of("a", "b"), a_request("r-1"), figures={"a": FAILS}, now=0.0, trace=trace)
    assert TraceStep("candidate", "a", "its results fail: left out, but for probes") in trace
