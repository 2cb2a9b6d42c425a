"""Providers left alone: what results open and close, and what other instances tell."""

import pytest

from router.contracts.decision import Decision
from router.core.breakers import CLOSED, HALF_OPEN, OPEN
from router.policies.model import (
    NO_STATES,
    Averages,
    Policy,
    ProviderTracker,
    RemoteTransition,
    StatesBehindBreakers,
)
from tests.support.breakers import SomeProviders, a_guarded_policy
from tests.support.policy import a_policy, a_provider, a_request, a_rule, decide

TIMEOUT_S = 10.0


def providers(*policies: Policy) -> tuple[SomeProviders, ProviderTracker]:
    some = SomeProviders(*policies)
    return some, ProviderTracker(Averages(), some.breakers, some.limits)


def a_decision(provider: str = "openai", latency_ms: float = 2000) -> Decision:
    return Decision(provider, "weighted", 50, latency_ms, 0.01)


def test_failures_reported_open_it_and_only_for_that_tenant() -> None:
    some = SomeProviders(a_guarded_policy(tenant="_shared"))
    some.report(3)
    some.report(2, tenant="other")
    assert (some.state(), some.state("other")) == (OPEN, CLOSED)


def test_a_provider_without_a_breaker_is_never_left_alone() -> None:
    some = SomeProviders(a_policy(a_provider("openai")))
    some.report(100)
    assert (len(some.breakers), some.breakers.find_not_closed("acme")) == (0, None)


@pytest.mark.parametrize(
    ("policy", "opened"),
    [
        (a_guarded_policy(), [False, False, True, False]),
        (a_policy(a_provider("openai")), [False] * 4),
    ],
)
def test_the_outcome_that_opens_it_says_so(policy: Policy, opened: list[bool]) -> None:
    breakers = SomeProviders(policy).breakers
    failed = {"latency_ms": 1, "cost": 0.0, "status": "error", "error_code": None}
    assert [breakers.observe("acme", "openai", **failed) for _ in range(4)] == opened  # type: ignore[arg-type]


def test_what_says_nothing_changes_nothing() -> None:
    some = SomeProviders()
    some.report(2)
    some.report(5, code="429")
    some.report(5, status="cancelled")
    some.report(1)
    assert some.state() == OPEN, "the row of failures was not broken"


def test_while_all_are_closed_the_states_are_the_averages_own() -> None:
    some, known = providers()
    some.report()
    assert known.states_of("acme") is NO_STATES
    known.averages.observe(
        "acme", "openai", latency_ms=1, cost=1.0, status="success", error_code=None
    )
    assert known.states_of("acme") is known.averages.states_of("acme")


def test_an_open_providers_state_keeps_its_figures_and_closing_gives_the_short_way_back() -> None:
    some, known = providers()
    report = {"error_code": None, "retry_after_ms": None, "assignment_id": "a", "listed_cost": 0.5}
    known.observe("acme", "openai", latency_ms=100, cost=0.5, status="success", **report)  # type: ignore[arg-type]
    some.report(3)
    state = known.states_of("acme").get("openai")
    assert state is not None
    assert (state.blocked_until, state.latency_ms, state.cost) == (TIMEOUT_S, 100, 0.5)
    assert known.states_of("acme").get("anthropic") is None
    some.clock.at = TIMEOUT_S
    some.succeed(2)
    assert known.states_of("acme") is known.averages.states_of("acme")


def test_decisions_go_to_the_other_provider_and_to_the_fallback_when_both_are_open() -> None:
    policy = a_policy(
        a_provider("openai", priority=60),
        a_provider("anthropic"),
        fallbacks=[a_rule("local", {"status": "circuit_breaker_open"})],
        circuit_breaker={"enabled": True, "failure_threshold": 3},
    )
    some, known = providers(policy)
    some.report(3)
    assert decide(policy, states=known.states_of("acme"), now=some.clock()) == (
        "anthropic",
        "weighted",
        50,
    )
    some.report(3, provider="anthropic")
    assert decide(policy, states=known.states_of("acme"), now=some.clock()) == (
        "local",
        "circuit_breaker_fallback",
        20,
    )


def test_a_decision_is_made_anew_when_the_opening_ends_and_few_of_them_are_kept_until_then() -> (
    None
):
    some, known = providers()
    some.report(3)
    states = known.states_of("acme")
    assert isinstance(states, StatesBehindBreakers)
    policies = [a_policy(a_provider("openai", priority=60), a_provider("b")) for _ in range(200)]
    for policy in policies:
        for _ in range(2):
            assert decide(policy, states=states, now=0.0)[0] == "b"
        assert (states.until, id(policy.plan) in states.plans) == (TIMEOUT_S, True)
    assert len(states.plans) < 100
    assert decide(policies[-1], states=states, now=TIMEOUT_S)[0] == "openai"


def test_half_open_lets_so_many_decisions_through_until_their_deadlines() -> None:
    policy = a_guarded_policy("openai", half_open_max_calls=2)
    some, known = providers(policy)
    some.report(3)
    some.clock.at = TIMEOUT_S
    for _ in range(2):
        assert (
            decide(policy, a_request(), states=known.states_of("acme"), now=some.clock())[0]
            == "openai"
        )
        some.breakers.on_decision("acme", a_decision(latency_ms=2000))
    assert decide(policy, states=known.states_of("acme"), now=some.clock())[0] == "decision_failed"
    some.clock.at += 9.9
    assert decide(policy, states=known.states_of("acme"), now=some.clock())[0] == "decision_failed"
    some.clock.at += 0.1
    assert decide(policy, states=known.states_of("acme"), now=some.clock())[0] == "openai"


def test_a_result_frees_a_probes_place_and_successes_close() -> None:
    some, _ = providers(a_guarded_policy(half_open_max_calls=1, success_threshold=2))
    some.report(3)
    some.clock.at = TIMEOUT_S
    for _ in range(2):
        some.breakers.on_decision("acme", a_decision())
        some.succeed()
    assert [(one.before, one.state) for one in some.transitions] == [
        (CLOSED, OPEN),
        (OPEN, HALF_OPEN),
        (HALF_OPEN, CLOSED),
    ]


def test_results_that_come_while_it_is_open_were_begun_before() -> None:
    some = SomeProviders()
    some.report(3)
    some.clock.at = TIMEOUT_S - 0.1
    some.succeed(5)
    some.clock.at = TIMEOUT_S
    some.succeed(1)
    assert some.state() == HALF_OPEN


def test_what_was_begun_before_the_opening_and_comes_late_is_no_probe() -> None:
    some, _ = providers(a_guarded_policy(success_threshold=2))
    some.report(3)
    some.clock.at = TIMEOUT_S + 1
    some.succeed(5, latency_ms=round(TIMEOUT_S * 1000) + 1001)
    assert some.state() == HALF_OPEN
    some.report(latency_ms=round(TIMEOUT_S * 1000) + 1001)
    assert some.state() == HALF_OPEN
    some.succeed(2, latency_ms=900)
    assert some.state() == CLOSED


def test_a_worker_that_tells_an_absurd_latency_does_not_keep_it_open_for_ever() -> None:
    some, _ = providers(a_guarded_policy(success_threshold=2))
    some.report(3)
    some.clock.at = 61.0
    some.succeed(2, latency_ms=10**9)
    assert some.state() == CLOSED


def test_another_instances_opening_is_honoured_before_any_result_was_seen() -> None:
    some, known = providers()
    some.breakers.apply_remote({("acme", "openai"): RemoteTransition(8.0, 123)})
    state = known.states_of("acme").get("openai")
    assert state is not None
    assert state.blocked_until == 8.0
    some.breakers.apply_remote({("acme", "openai"): RemoteTransition(None, 123)})
    assert known.states_of("acme") is NO_STATES


def test_what_was_told_before_its_policy_came_holds_once_it_is_there() -> None:
    some, known = providers(a_policy(a_provider("openai")))
    some.breakers.apply_remote({("acme", "openai"): RemoteTransition(8.0, 123)})
    assert known.states_of("acme") is NO_STATES
    some.replace(a_guarded_policy())
    assert known.states_of("acme").get("openai") is not None


def test_what_was_told_and_taken_back_before_its_policy_came_does_not_hold() -> None:
    some, known = providers(a_policy(a_provider("openai")))
    for until in (8.0, None):
        some.breakers.apply_remote({("acme", "openai"): RemoteTransition(until, 123)})
    some.replace(a_guarded_policy())
    assert known.states_of("acme") is NO_STATES


def test_an_opening_of_another_instance_is_forgotten_when_its_time_is_over() -> None:
    some, known = providers(a_policy(a_provider("openai")))
    some.breakers.apply_remote({("acme", "openai"): RemoteTransition(8.0, 123)})
    some.clock.at = 8.0
    some.replace(a_guarded_policy())
    assert (known.states_of("acme"), len(some.breakers)) == (NO_STATES, 0)
    some.report(1)
    assert some.state() == CLOSED


def test_expired_openings_of_other_tenants_push_no_open_breaker_out() -> None:
    some = SomeProviders(limit=4)
    for number in range(10):
        some.breakers.apply_remote({(f"gone{number}", "openai"): RemoteTransition(8.0, 123)})
    some.clock.at = 9.0
    some.report(3)
    some.replace(a_guarded_policy(), a_guarded_policy(tenant="_shared"))
    assert some.state() == OPEN


def test_openings_of_other_instances_are_kept_up_to_the_limit() -> None:
    some = SomeProviders(limit=20)
    for number in range(100):
        some.breakers.apply_remote({(f"unknown{number}", "openai"): RemoteTransition(8.0, 123)})
    some.replace(a_guarded_policy(tenant="_shared"))
    assert len(some.breakers.snapshots()) == 20
    assert len(some.breakers._remote) == 20
    assert some.state("unknown99") == OPEN, "the newest are kept"


def test_a_policy_that_goes_takes_its_breaker_along_and_other_rules_hold_at_once() -> None:
    some, known = providers()
    some.report(3)
    some.replace(a_policy(a_provider("openai")))
    assert (known.states_of("acme"), len(some.breakers)) == (NO_STATES, 0)
    some.replace(a_guarded_policy(failure_threshold=5))
    some.report(1)
    some.replace(a_guarded_policy(failure_threshold=2))
    some.report(1)
    assert some.state() == OPEN


def test_there_are_never_more_than_the_limit() -> None:
    some = SomeProviders(a_guarded_policy(tenant="_shared"), limit=2)
    for tenant in ("a", "b", "c"):
        some.report(3, tenant=tenant)
    assert (len(some.breakers), some.breakers.find_not_closed("a")) == (2, None)
