"""Which arm decides a request, and what is recorded of it."""

from collections import Counter

import pytest
from msgspec.structs import replace

from router.contracts.canary import CANDIDATE, CONTROL, CanaryPlan
from router.contracts.decision import Decision
from router.contracts.version_record import VersionRecord, make_record
from router.decide.model.recorder import explain_decision
from router.policies.model import (
    Policy,
    evaluate,
    evaluate_shadow,
    find_arm,
    list_arms,
    parse_record,
    reevaluate,
    select_arm,
)
from tests.support.policy import a_document, a_provider, a_request
from tests.support.recorded import record_decision


def a_record(*, share: float = 20, is_shadow: bool = False, **sections: object) -> VersionRecord:
    plan = CanaryPlan(
        document=a_document(a_provider("new", 30), a_provider("old", 70)),
        share=share,
        guards=(),
        until_ms=0,
        min_results=1,
        is_shadow=is_shadow,
    )
    return make_record(
        a_document(a_provider("old"), **sections), version=7, author="me", canary=plan
    )


def a_canary(*, share: float = 20, is_shadow: bool = False, **sections: object) -> Policy:
    return parse_record(a_record(share=share, is_shadow=is_shadow, **sections), "acme", "default")


def arms_of(policy: Policy, count: int, **context: object) -> list[str | None]:
    return [find_arm(policy, a_request(f"r-{number}", **context)).arm for number in range(count)]


def test_a_share_of_requests_finds_the_candidate_and_each_finds_the_same_arm_again() -> None:
    found = arms_of(a_canary(), 5000)
    assert 900 < Counter(found)[CANDIDATE] < 1100
    assert found == arms_of(a_canary(), 5000)
    assert set(found) == {CONTROL, CANDIDATE}


@pytest.mark.parametrize(
    "sections", [{}, {"sticky": {"enabled": True, "session_key": "session_id"}}]
)
def test_a_session_stays_with_its_arm_whether_or_not_it_is_sticky(
    sections: dict[str, object],
) -> None:
    policy = a_canary(**sections)
    by_session = [set(arms_of(policy, 20, session_id=f"s-{number}")) for number in range(200)]
    assert all(len(arms) == 1 for arms in by_session)
    assert {arm for arms in by_session for arm in arms} == {CONTROL, CANDIDATE}


def test_within_an_arm_every_provider_keeps_its_weight() -> None:
    policy = a_canary(share=10)
    chosen = Counter[str]()
    for number in range(20_000):
        arm = find_arm(policy, request := a_request(f"r-{number}"))
        if arm.arm == CANDIDATE:
            answer = evaluate(arm, request, now=0.0)
            assert isinstance(answer, Decision)
            chosen[answer.provider_id] += 1
    assert 0.25 < chosen["new"] / chosen.total() < 0.35


def test_a_decision_names_its_arm_beside_the_version_of_both() -> None:
    policy = a_canary()
    for arm in list_arms((policy,)):
        answer = evaluate(arm, a_request(), now=0.0)
        assert isinstance(answer, Decision)
        assert answer.metadata == {"policy_id": "default", "policy_version": "7", "canary": arm.arm}


def test_a_policy_without_a_canary_and_one_with_a_shadow_name_none() -> None:
    for policy in (
        a_canary(is_shadow=True),
        parse_record(make_record(a_document(), version=7, author="me"), "acme", "default"),
    ):
        assert set(arms_of(policy, 200)) == {None}
        answer = evaluate(policy, a_request(), now=0.0)
        assert isinstance(answer, Decision)
        assert "canary" not in answer.metadata


def test_a_recorded_decision_is_computed_again_by_the_arm_that_it_names() -> None:
    policy = a_canary()
    for number in range(300):
        arm = find_arm(policy, request := a_request(f"r-{number}"))
        case = record_decision(arm, request)
        assert case.arm == arm.arm
        assert reevaluate(select_arm(policy, case.arm), case).answer == case.answer
        explained = explain_decision(case, policy)
        assert explained["reevaluation"]["is_same"] is True  # type: ignore[index]
        assert explained["policy"]["arm"] == arm.arm  # type: ignore[index]


def test_another_arm_gives_another_answer() -> None:
    """What makes the test above fail, if the record forgot the arm."""
    policy = a_canary()
    cases = (
        [record_decision(policy.canary.candidate, a_request(f"r-{number}")) for number in range(50)]
        if policy.canary
        else []
    )
    assert any(reevaluate(policy, case).answer != case.answer for case in cases)


def test_a_shadow_is_recorded_beside_the_decision_and_changes_nothing() -> None:
    policy, plain = a_canary(is_shadow=True), replace(a_canary(is_shadow=True), canary=None)
    shadows = set()
    for number in range(100):
        request = a_request(f"r-{number}")
        assert evaluate(policy, request, now=0.0) == evaluate(plain, request, now=0.0)
        case = record_decision(policy, request)
        assert case.shadow == evaluate_shadow(policy, request, now=0.0)
        assert isinstance(case.shadow, Decision)
        shadows.add(case.shadow.provider_id)
        shown = explain_decision(case, policy)["shadow"]
        assert shown["is_same"] is True  # type: ignore[index]
    assert shadows == {"old", "new"}
