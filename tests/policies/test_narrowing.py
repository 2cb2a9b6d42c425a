"""A request that names whom alone it may have, or whom it may not: no way of choosing leads to
another.
"""

from collections import Counter

import pytest
from msgspec.structs import replace

from router.contracts.canary import CANDIDATE, CONTROL
from router.contracts.decision import Decision, Refusal, RouteRequest
from router.policies.model import PreviousAttempt, evaluate, evaluate_shadow, find_arm
from router.policies.model.measurements import LearnedFigures
from tests.policies.test_canary import a_canary
from tests.support.policy import SHUT, a_policy, a_provider, a_request, a_rule, decide

NAMES = ("a", "b", "c")
THREE = tuple(a_provider(name, 30) for name in NAMES)
LISTS = [{"providers": ["b", "c"]}, {"excluded_providers": ["a"]}]
NOT_A = pytest.mark.parametrize("limits", LISTS, ids=str)
FAILS = LearnedFigures(samples=99, score=1.0, cost=0.001, is_failing=True, probe_share=1.0)


def asks(
    number: int = 0, limits: dict[str, object] | None = None, **context: object
) -> RouteRequest:
    return a_request(f"r-{number}", limits=limits, **context)


def why_each_fell(answer: Decision | Refusal) -> object:
    assert isinstance(answer, Refusal), answer
    assert answer.code == "decision_failed"
    return (answer.details or {})["providers"]


@NOT_A
def test_the_others_share_by_their_weights(limits: dict[str, object]) -> None:
    drawn = Counter(decide(a_policy(*THREE), asks(n, limits))[0] for n in range(1000))
    assert drawn.keys() == {"b", "c"}
    assert 400 < drawn["b"] < 600


def test_a_lower_tier_serves_who_asks_for_it() -> None:
    policy = a_policy(a_provider("high"), a_provider("low", priority=10))
    assert decide(policy, asks(limits={"providers": ["low", "unknown"]})) == ("low", "weighted", 50)


def test_both_lists_hold_at_once() -> None:
    limits = {"providers": ["a", "b"], "excluded_providers": ["b", "c"]}
    assert {decide(a_policy(*THREE), asks(n, limits))[0] for n in range(50)} == {"a"}


def test_the_refusal_says_of_each_provider_whether_the_request_ruled_it_out() -> None:
    policy = a_policy(*THREE, a_provider("off", enabled=False))
    limits = {"providers": ["a", "b", "off"], "excluded_providers": ["b"]}
    answer = evaluate(policy, asks(limits=limits), states={"a": SHUT}, now=0)
    assert why_each_fell(answer) == {
        "a": "circuit_breaker_open",
        "b": "excluded",
        "c": "not_asked_for",
        "off": "disabled",
    }


def test_when_to_ask_again_is_said_of_those_alone_that_may_be_had() -> None:
    states = {"a": SHUT, "b": replace(SHUT, blocked_until=5.0)}
    limits = {"excluded_providers": ["b", "c"]}
    answer = evaluate(a_policy(*THREE), asks(limits=limits), states=states, now=0)
    assert isinstance(answer, Refusal)
    assert (answer.details or {})["retry_after_ms"] == 100_000


def test_a_provider_without_a_weight_is_not_drawn_for_being_asked_for() -> None:
    policy = a_policy(*THREE, a_provider("spare", 0))
    answer = evaluate(policy, asks(limits={"providers": ["spare"]}), now=0)
    assert dict(why_each_fell(answer))["spare"] == "zero_weight"  # type: ignore[call-overload]


@NOT_A
def test_a_rule_for_a_reported_failure_gives_none_of_the_others(limits: dict[str, object]) -> None:
    rules = [a_rule("a", {"status": "timeout"}), a_rule("unlisted", {}), a_rule("c", {})]
    policy = a_policy(*THREE, fallbacks=rules)
    told = (
        {"providers": ["b", "c"]}
        if "providers" in limits
        else {"excluded_providers": ["a", "unlisted"]}
    )
    assert decide(policy, asks(status="timeout"))[0] == "a"
    assert decide(policy, asks(limits=told, status="timeout")) == ("c", "fallback", 25)


def test_a_rule_leads_to_a_provider_that_no_list_of_the_policy_has_where_it_is_asked_for() -> None:
    policy = a_policy(*THREE, fallbacks=[a_rule("unlisted", {})])
    limits: dict[str, object] = {"providers": ["unlisted"]}
    assert decide(policy, asks(limits=limits)) == ("unlisted", "fallback", 25)


def test_a_rule_for_open_breakers_gives_none_that_is_excluded() -> None:
    rules = [a_rule("b", {"status": "circuit_breaker_open"}), a_rule("c", {})]
    policy = a_policy(a_provider("a"), a_provider("b", 0), a_provider("c", 0), fallbacks=rules)
    limits: dict[str, object] = {"excluded_providers": ["b"]}
    answer = decide(policy, asks(limits=limits), states={"a": SHUT})
    assert answer == ("c", "circuit_breaker_fallback", 20)


@NOT_A
def test_who_had_the_request_before_is_not_tried_again(limits: dict[str, object]) -> None:
    policy = a_policy(*THREE, fallbacks=[a_rule("c", {"status": "timeout"}, retry=3)])
    request, before = asks(limits=limits, status="timeout"), PreviousAttempt("a", 1)
    assert decide(policy, asks(status="timeout"), previous=before)[:2] == ("a", "retry")
    assert decide(policy, request, previous=before)[:2] == ("c", "fallback")


@NOT_A
def test_a_session_leaves_its_provider_and_all_its_requests_find_the_same_other(
    limits: dict[str, object],
) -> None:
    policy = a_policy(*THREE, sticky={"session_key": "user"})
    found = {decide(policy, asks(n, limits, user="u-1"), remembered="a")[:2] for n in range(50)}
    assert len(found) == 1
    assert found <= {("b", "weighted"), ("c", "weighted")}
    assert decide(policy, asks(limits=limits, user="u-1"), remembered="b")[1] == "sticky"


@NOT_A
@pytest.mark.parametrize("kind", ["least_latency", "cheapest"])
@pytest.mark.parametrize("explore", [0, 1])
def test_no_strategy_chooses_explores_or_probes_another(
    limits: dict[str, object], kind: str, explore: int
) -> None:
    policy = a_policy(*THREE, strategy={"type": kind, "explore": explore})
    best = LearnedFigures(samples=99, score=1.0, cost=0.001)
    for learned in ({"a": best}, {"a": FAILS}, dict.fromkeys(NAMES, FAILS)):
        for number in range(60):
            request = replace(asks(number, limits), push_assignment=True)
            answer = evaluate(policy, request, figures=learned, now=0)
            assert isinstance(answer, Decision)
            assert answer.provider_id != "a"


@pytest.mark.parametrize("arm", [CONTROL, CANDIDATE])
def test_each_arm_of_a_canary_keeps_to_the_lists(arm: str) -> None:
    policy = a_canary(share=50)
    limits: dict[str, object] = {"providers": ["old"]}
    arms = [(find_arm(policy, asks(n)), asks(n, limits)) for n in range(100)]
    answers = [evaluate(one, request, now=0) for one, request in arms if one.arm == arm]
    assert {answer.provider_id for answer in answers if isinstance(answer, Decision)} == {"old"}
    assert len(answers) > 20


def test_a_shadow_keeps_to_the_lists() -> None:
    request = asks(limits={"providers": ["old"]})
    shadows = [
        evaluate_shadow(a_canary(is_shadow=True), replace(request, request_key=f"r-{n}"), now=0)
        for n in range(50)
    ]
    assert {one.provider_id for one in shadows if isinstance(one, Decision)} == {"old"}


@pytest.mark.parametrize("odd", ["a", 7, {}, None, {"a": 1}])
def test_what_is_no_list_narrows_nothing(odd: object) -> None:
    """A reader refuses it; a recorded request, or one of a test, may hold it."""
    limits = {"providers": odd, "excluded_providers": odd}
    assert decide(a_policy(a_provider("a")), asks(limits=limits))[0] == "a"
