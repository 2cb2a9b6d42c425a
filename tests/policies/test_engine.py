"""The decision: who is chosen, for which reason, and what it is expected to cost."""

from collections import Counter

import pytest

from router.contracts.decision import Decision, Refusal
from router.policies.model import (
    NO_STATES,
    PreviousAttempt,
    ProviderState,
    TraceStep,
    evaluate,
    read_session,
)
from router.policies.model.engine import is_failure
from tests.support.policy import SHUT, a_policy, a_provider, a_request, a_rule, decide

A, B = a_provider("a", 50), a_provider("b", 50)
STICKY = {"session_key": "user"}


def _shares(policy, **context: object) -> Counter[str]:
    return Counter(decide(policy, a_request(f"r-{n}", **context))[0] for n in range(2000))


# selection: priorities and weights


def test_the_highest_priority_tier_wins_whatever_the_weights() -> None:
    policy = a_policy(a_provider("low", 100), a_provider("high", 1, priority=60))
    assert _shares(policy) == {"high": 2000}


def test_inside_a_tier_the_weights_share() -> None:
    shares = _shares(
        a_policy(a_provider("a", 75), a_provider("b", 25), a_provider("c", 100, priority=10))
    )
    assert 1400 < shares["a"] < 1600
    assert shares["a"] + shares["b"] == 2000


def test_the_next_tier_serves_when_the_highest_is_shut() -> None:
    policy = a_policy(a_provider("low", 1, priority=10), a_provider("high"))
    assert decide(policy, states={"high": SHUT}) == ("low", "weighted", 50)


def test_neither_disabled_nor_weightless_providers_are_drawn() -> None:
    assert _shares(
        a_policy(a_provider("a", 0), a_provider("b", enabled=False), a_provider("c", 1))
    ) == {"c": 2000}


def test_a_breaker_lets_through_again_at_its_time() -> None:
    policy = a_policy(A)
    assert decide(policy, states={"a": SHUT}, now=99.9)[0] == "decision_failed"
    assert decide(policy, states={"a": SHUT}, now=100.0)[0] == "a"


# constraints


@pytest.mark.parametrize(
    ("limit", "figure"), [("max_latency_ms", "expected_latency_ms"), ("max_cost", "expected_cost")]
)
def test_who_is_known_to_exceed_a_limit_is_not_eligible(limit: str, figure: str) -> None:
    policy = a_policy(a_provider("dear", **{figure: 11}), a_provider("cheap", 1, **{figure: 10}))
    for n in range(50):
        assert decide(policy, a_request(f"r-{n}", limits={limit: 10}))[0] == "cheap"


def test_what_is_not_known_exceeds_nothing() -> None:
    assert decide(a_policy(A), a_request(limits={"max_cost": 0, "max_latency_ms": 0}))[0] == "a"


def test_a_moving_average_is_better_known_than_the_policys_figure() -> None:
    policy = a_policy(a_provider("a", expected_latency_ms=1))
    slow = {"a": ProviderState(latency_ms=900.0)}
    assert (
        decide(policy, a_request(limits={"max_latency_ms": 100}), states=slow)[0]
        == "decision_failed"
    )


@pytest.mark.parametrize("limit", ["cheap", True, None, [1]])
def test_a_limit_that_is_no_number_limits_nothing(limit: object) -> None:
    assert (
        decide(a_policy(a_provider("a", expected_cost=5)), a_request(limits={"max_cost": limit}))[0]
        == "a"
    )


# sticky sessions


def test_a_session_is_drawn_instead_of_its_requests() -> None:
    policy = a_policy(A, B, sticky=STICKY)
    assert len(_shares(policy, user="u-1")) == 1
    assert len({decide(policy, a_request(user=f"u-{n}"))[0] for n in range(50)}) == 2


def test_a_remembered_provider_is_kept() -> None:
    assert decide(a_policy(A, B, sticky=STICKY), a_request(user="u"), remembered="b") == (
        "b",
        "sticky",
        100,
    )


def test_a_session_stays_where_it_is_while_weights_change() -> None:
    changed = a_policy(a_provider("a", 100), a_provider("b", 1), sticky=STICKY, version=2)
    for n in range(50):
        assert decide(changed, a_request(user=f"u-{n}"), remembered="b")[1] == "sticky"


@pytest.mark.parametrize(
    "gone", [a_provider("b", 0), a_provider("b", enabled=False), a_provider("other")]
)
def test_a_remembered_provider_that_is_no_longer_eligible_is_drawn_anew(
    gone: dict[str, object],
) -> None:
    policy = a_policy(a_provider("a", priority=90), gone, sticky=STICKY)
    assert decide(policy, a_request(user="u"), remembered="b") == ("a", "weighted", 50)


def test_a_remembered_provider_behind_an_open_breaker_is_drawn_anew() -> None:
    assert (
        decide(
            a_policy(A, B, sticky=STICKY), a_request(user="u"), remembered="b", states={"b": SHUT}
        )[0]
        == "a"
    )


def test_without_a_sticky_policy_nothing_is_remembered() -> None:
    assert decide(a_policy(a_provider("a", priority=90), B), remembered="b")[0] == "a"


@pytest.mark.parametrize(
    ("value", "session"),
    [
        ("u", "u"),
        (42, "42"),
        (True, None),
        (1.5, None),
        ("", None),
        (None, None),
        (["u"], None),
        ({}, None),
        (10**200, None),
    ],
)
def test_a_session_is_a_text_or_an_integer(value: object, session: str | None) -> None:
    assert read_session("user", a_request(user=value)) == session


def test_there_is_no_session_without_its_key() -> None:
    assert read_session("user", a_request(other="u")) is None


def test_a_long_session_is_remembered_by_its_digest() -> None:
    first, second = (read_session("user", a_request(user="u" * 10_000 + end)) for end in "ab")
    assert first != second
    assert len(first or "") == 64


# fallbacks


def test_an_open_circuit_is_named_as_the_cause() -> None:
    policy = a_policy(
        A, a_provider("spare", 0), fallbacks=[a_rule("spare", {"status": "circuit_breaker_open"})]
    )
    assert decide(policy, states={"a": SHUT}) == ("spare", "circuit_breaker_fallback", 20)


def test_all_providers_failed_holds_when_every_candidate_is_shut() -> None:
    policy = a_policy(A, B, fallbacks=[a_rule("spare", {"status": "all_providers_failed"})])
    assert decide(policy, states={"a": SHUT, "b": SHUT}) == (
        "spare",
        "circuit_breaker_fallback",
        20,
    )
    assert decide(policy, states={"a": SHUT})[0] == "b"


def test_limits_that_leave_no_provider_are_no_open_circuit() -> None:
    rules = [a_rule("shut", {"status": "circuit_breaker_open"}), a_rule("spare", {})]
    policy = a_policy(a_provider("a", expected_cost=5), fallbacks=rules)
    assert decide(policy, a_request(limits={"max_cost": 1}), states={"a": SHUT}) == (
        "spare",
        "fallback",
        25,
    )


def test_the_contexts_status_counts_when_no_provider_is_eligible() -> None:
    policy = a_policy(a_provider("a", 0), fallbacks=[a_rule("spare", {"status": "success"})])
    assert decide(policy, a_request(status="success")) == ("spare", "fallback", 25)
    assert decide(policy)[0] == "decision_failed"


@pytest.mark.parametrize("status", ["timeout", "400", "503", 400, 503, 503.0])
def test_a_reported_failure_goes_to_the_fallback(status: object) -> None:
    policy = a_policy(A, fallbacks=[a_rule("spare", {"status": ["timeout", "4xx", "5xx"]})])
    assert decide(policy, a_request(status=status)) == ("spare", "fallback", 25)


@pytest.mark.parametrize("status", ["ok", "success", "", "200", 200, True, None, [], {}])
def test_what_is_no_failure_does_not_reach_the_rules(status: object) -> None:
    policy = a_policy(A, fallbacks=[a_rule("spare", {})])
    assert decide(policy, a_request(status=status)) == ("a", "weighted", 50)


def test_a_failure_that_no_rule_matches_is_decided_as_usual() -> None:
    policy = a_policy(A, fallbacks=[a_rule("spare", {"status": "timeout"})])
    assert decide(policy, a_request(status="4xx")) == ("a", "weighted", 50)


def test_the_first_rule_that_can_help_helps() -> None:
    rules = [
        a_rule("none", {"status": "x"}),
        a_rule("off", {}),
        a_rule("shut", {}),
        a_rule("dear", {}),
        a_rule("spare", {}),
    ]
    providers = [
        a_provider("off", enabled=False),
        a_provider("shut", 0),
        a_provider("dear", 0, expected_cost=9),
        a_provider("spare", 0),
    ]
    policy = a_policy(*providers, fallbacks=rules)
    assert decide(policy, a_request(limits={"max_cost": 1}), states={"shut": SHUT})[0] == "spare"


# retries


def test_the_present_provider_is_tried_again_while_retries_last() -> None:
    policy = a_policy(A, B, fallbacks=[a_rule("b", {"status": "timeout"}, retry=2)])
    answers = [
        decide(policy, a_request(status="timeout"), previous=PreviousAttempt("a", n))
        for n in (1, 2, 3)
    ]
    assert answers == [("a", "retry", 50), ("a", "retry", 50), ("b", "fallback", 25)]


@pytest.mark.parametrize(
    "previous",
    [PreviousAttempt("unknown", 1), PreviousAttempt("shut", 1), PreviousAttempt("off", 1)],
)
def test_who_may_not_take_the_request_is_not_tried_again(previous: PreviousAttempt) -> None:
    providers = [A, B, a_provider("shut"), a_provider("off", enabled=False)]
    policy = a_policy(*providers, fallbacks=[a_rule("b", {"status": "timeout"}, retry=2)])
    assert decide(
        policy, a_request(status="timeout"), previous=previous, states={"shut": SHUT}
    ) == ("b", "fallback", 25)


def test_without_a_failure_there_is_nothing_to_try_again() -> None:
    policy = a_policy(a_provider("a", priority=9), B, fallbacks=[a_rule("b", {}, retry=2)])
    assert decide(policy, previous=PreviousAttempt("a", 1)) == ("b", "weighted", 50)


# figures, metadata and refusals


def test_figures_are_the_policys_else_500_and_a_hundredth() -> None:
    known = evaluate(
        a_policy(a_provider("a", expected_latency_ms=800, expected_cost=0.012)), a_request(), now=0
    )
    unknown = evaluate(a_policy(A), a_request(), now=0)
    assert isinstance(known, Decision)
    assert isinstance(unknown, Decision)
    assert (known.expected_latency_ms, known.expected_cost) == (800, 0.012)
    assert (unknown.expected_latency_ms, unknown.expected_cost) == (500, 0.01)


def test_moving_averages_come_before_the_policys_figures() -> None:
    policy = a_policy(a_provider("a", expected_latency_ms=800, expected_cost=0.5))
    decision = evaluate(policy, a_request(), states={"a": ProviderState(latency_ms=120.0)}, now=0)
    assert isinstance(decision, Decision)
    assert (decision.expected_latency_ms, decision.expected_cost) == (120.0, 0.5)


def test_a_decision_names_its_policy_in_texts() -> None:
    decision = evaluate(a_policy(A, policy_id="p", version=12), a_request(), now=0)
    assert decision.metadata == {"policy_id": "p", "policy_version": "12"}  # type: ignore[union-attr]


def test_a_decision_names_what_its_provider_is_asked_with_however_it_was_chosen() -> None:
    asked = {"model": "m-1", "parameters": {"temperature": 0}}
    rules = [a_rule("a", {"status": "timeout"}), a_rule("unlisted", {"status": "busy"})]
    policy = a_policy(a_provider("a", **asked), a_provider("b", 0), fallbacks=rules)
    own = {"policy_id": "default", "policy_version": "1"}
    for request in (a_request(), a_request(status="timeout"), a_request(limits={"max_cost": 1})):
        decision = evaluate(policy, request, states={"a": ProviderState(cost=0.5)}, now=0)
        assert decision.metadata == {**own, "model": "m-1", "parameters": '{"temperature":0}'}  # type: ignore[union-attr]
    assert evaluate(policy, a_request(status="busy"), now=0).metadata == own  # type: ignore[union-attr]


def test_a_decision_with_the_policys_figures_is_one_object_whichever_way_it_was_found() -> None:
    policy = a_policy(A)
    first = evaluate(policy, a_request("r-1"), now=0)
    assert evaluate(policy, a_request("r-2"), now=0) is first
    assert (
        evaluate(policy, a_request("r-3", limits={"max_cost": 1}), states={}, now=0, trace=[])
        is first
    )


def test_no_eligible_provider_is_decision_failed_and_says_why() -> None:
    policy = a_policy(
        a_provider("zero", 0),
        a_provider("off", 0, enabled=False),
        a_provider("shut"),
        a_provider("dear", expected_cost=2),
        a_provider("slow", expected_latency_ms=2),
    )
    answer = evaluate(
        policy, a_request(limits={"max_cost": 1, "max_latency_ms": 1}), states={"shut": SHUT}, now=0
    )
    assert isinstance(answer, Refusal)
    assert answer.code == "decision_failed"
    assert answer.details == {
        "reason": "no_provider_available",
        "providers": {
            "zero": "zero_weight",
            "off": "disabled",
            "shut": "circuit_breaker_open",
            "dear": "max_cost",
            "slow": "max_latency_ms",
        },
        "retry_after_ms": 100_000,
    }


@pytest.mark.parametrize(
    ("pre", "validators", "post", "reason"),
    [
        (6, 0, 0, "too_many_pre_processors"),
        (0, 6, 0, "too_many_validators"),
        (0, 0, 6, "too_many_post_processors"),
        (5, 5, 1, "pipeline_too_deep"),
        (6, 6, 0, "pipeline_too_deep"),
    ],
)
def test_a_pipeline_too_deep_refuses_every_request(
    pre: int, validators: int, post: int, reason: str
) -> None:
    assert decide(a_policy(A, pre=_uses(pre), validators=_uses(validators), post=_uses(post))) == (
        "invalid_request",
        reason,
        0,
    )


def test_a_pipeline_of_ten_is_deep_enough() -> None:
    assert decide(a_policy(A, pre=_uses(5), validators=_uses(5)))[0] == "a"


def _uses(count: int) -> list[dict[str, object]]:
    return [{"id": f"e{n}"} for n in range(count)]


# trace


def test_a_trace_tells_what_was_considered_and_why_it_fell() -> None:
    rules = [a_rule("x", {"status": "timeout"}), a_rule("off", {}), a_rule("spare", {})]
    policy = a_policy(A, a_provider("off", enabled=False), fallbacks=rules)
    trace: list[TraceStep] = []
    evaluate(policy, a_request(), states={"a": SHUT}, now=0, trace=trace)
    assert trace == [
        TraceStep("eligible", "a", "circuit_breaker_open"),
        TraceStep("eligible", "off", "disabled"),
        TraceStep(
            "fallback", "fallbacks[0]", "does not match circuit_breaker_open, all_providers_failed"
        ),
        TraceStep("fallback", "fallbacks[1]", "off: disabled"),
        TraceStep("fallback", "fallbacks[2]", "circuit_breaker_fallback: spare"),
    ]


def test_a_trace_of_a_deep_pipeline_says_so() -> None:
    trace: list[TraceStep] = []
    evaluate(a_policy(A, pre=_uses(6)), a_request(), states=NO_STATES, now=0, trace=trace)
    assert trace == [TraceStep("pipeline", "pipeline", "too_many_pre_processors")]


@pytest.mark.parametrize(
    ("status", "fails"),
    [
        *((status, False) for status in ("ok", "success", "", "200", "399", 200, 399, 399.9)),
        *((status, False) for status in (None, True, ["timeout"])),
        *((status, True) for status in ("timeout", "5xx", "400", "503", 400, 503.0)),
    ],
)
def test_a_status_says_that_something_failed_from_400_on_and_in_every_other_word(
    status: object, *, fails: bool
) -> None:
    assert is_failure(status) is fails
