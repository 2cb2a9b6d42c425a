"""A candidate laid beside what was decided."""

from msgspec.structs import replace

from router.policies.model import CHANGED, UNCHANGED, UNCLEAR, Choice, ProviderState, compare
from router.policies.model.measurements import LearnedFigures
from router.policies.model.reevaluation import ExpectedFigures
from tests.support.policy import SHUT, a_policy, a_provider, a_request
from tests.support.recorded import HALVES, a_policy_that_asks_for, record_decision


def test_a_candidate_that_says_the_same_changes_nothing_whatever_its_version() -> None:
    cases = [record_decision(a_policy(*HALVES, version=4), a_request(f"r-{n}")) for n in range(50)]
    assert {compare(a_policy(*HALVES, version=9), case).verdict for case in cases} == {UNCHANGED}


def test_a_choice_that_comes_out_differently_is_a_change() -> None:
    case = record_decision(a_policy(a_provider("left")))
    compared = compare(a_policy(a_provider("right")), case)
    assert (compared.verdict, compared.before, compared.after) == (
        CHANGED,
        Choice("left", "weighted"),
        Choice("right", "weighted"),
    )
    assert (compared.tenant_id, compared.request_id, compared.at_ms) == ("acme", "r-1", case.at_ms)


def test_a_refusal_is_a_choice_too() -> None:
    case = record_decision(a_policy(a_provider("left")), states={"left": SHUT})
    compared = compare(a_policy(a_provider("left"), a_provider("right")), case)
    assert (compared.before, compared.after) == (
        Choice(None, "decision_failed"),
        Choice("right", "weighted"),
    )


def test_figures_alone_are_no_change() -> None:
    case = record_decision(a_policy(a_provider("left", expected_cost=1.0)))
    assert compare(a_policy(a_provider("left", expected_cost=2.0)), case).verdict == UNCHANGED


def test_where_the_record_says_too_little_the_case_is_unclear() -> None:
    compared = compare(a_policy_that_asks_for({"message.payload.size": 3}), record_decision())
    assert (compared.verdict, compared.uncertainty) == (
        UNCLEAR,
        "fallbacks[0].when looks at message.payload.size, which is not recorded",
    )


def test_a_remembered_session_counts_only_where_the_candidate_has_the_same_sessions() -> None:
    sticky = a_policy(*HALVES, sticky={"enabled": True, "session_key": "user_id"})
    drawn = compare(sticky, record_decision(sticky, a_request(user_id="u-1"))).after.provider
    other = "left" if drawn == "right" else "right"
    case = record_decision(sticky, a_request(user_id="u-1", team="t-1"), remembered=other)
    assert compare(sticky, case).after == Choice(other, "sticky")
    by_team = a_policy(*HALVES, sticky={"enabled": True, "session_key": "team"})
    assert compare(by_team, case).after.reason == "weighted"


def test_a_pipeline_that_is_too_deep_refuses_every_case() -> None:
    deep = a_policy(a_provider("left"), pre=[{"id": f"e-{n}"} for n in range(6)])
    assert compare(deep, record_decision(a_policy(a_provider("left")))).after == Choice(
        None, "invalid_request"
    )


def test_a_strategy_is_tried_on_what_was_learned_when_the_decision_was_made_by_weight() -> None:
    figures = {"left": LearnedFigures(score=2.0), "right": LearnedFigures(score=1.0)}
    states = {
        "left": ProviderState(latency_ms=200.0, cost=1.0),
        "right": ProviderState(latency_ms=100.0, cost=3.0),
    }
    case = replace(
        record_decision(a_policy(a_provider("left"), a_provider("right", 1e-9)), states=states),
        figures=figures,
    )
    tried = compare(a_policy(*HALVES, strategy={"type": "least_latency", "explore": 0}), case)
    assert (tried.before, tried.after) == (
        Choice("left", "weighted"),
        Choice("right", "least_latency"),
    )
    assert (tried.expected_before, tried.expected_after) == (
        ExpectedFigures(200.0, 1.0),
        ExpectedFigures(100.0, 3.0),
    )
