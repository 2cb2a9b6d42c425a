"""Candidates that do not differ, and some that are worse: seeded, so that nothing here depends on
chance. A thousand of each: `matrix`.
"""

import random
from collections import Counter
from statistics import median

import pytest

from router.policies.model.canaries import CanaryVerdict
from tests.rigs.canaries.simulation import Arm, play

USUAL = Arm(error_rate=0.1)


def counts(small: int, large: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("count", [small, pytest.param(large, marks=pytest.mark.matrix)])


@counts(40, 1000)
def test_of_candidates_that_do_not_differ_one_in_a_hundred_is_rolled_back_at_most(
    count: int,
) -> None:
    rng = random.Random(24)
    ended = Counter(play(USUAL, USUAL, rng=rng, share=0.2, most=150).verdict for _ in range(count))
    assert ended[CanaryVerdict.ROLL_BACK] <= count / 100


@counts(21, 1001)
def test_twice_the_errors_are_found_within_two_hundred_outcomes_of_the_candidate(
    count: int,
) -> None:
    rng = random.Random(24)
    ended = [play(USUAL, Arm(error_rate=0.2), rng=rng) for _ in range(count)]
    assert median(one.outcomes for one in ended) <= 200
    assert all(one.verdict is not CanaryVerdict.PROMOTE for one in ended)


@counts(20, 1000)
def test_of_a_policy_that_all_tenants_may_use_one_tenant_alone_rolls_back_no_more_than_chance_does(
    count: int,
) -> None:
    rng = random.Random(24)
    tenants = (1.0, 1.0, 0.5, 0.2)
    for is_spiteful in (False, True):
        played = [
            play(
                USUAL, USUAL, rng=rng, share=0.2, most=100, tenants=tenants, is_spiteful=is_spiteful
            )
            for _ in range(count)
        ]
        assert Counter(one.verdict for one in played)[CanaryVerdict.ROLL_BACK] <= count * (
            0.1 if is_spiteful else 0.01
        )


def test_a_candidate_twice_as_slow_is_found_and_one_that_fails_less_and_is_faster_is_promoted() -> (
    None
):
    rng = random.Random(24)
    slow = [play(USUAL, Arm(error_rate=0.1, median_ms=200), rng=rng) for _ in range(8)]
    assert {one.verdict for one in slow} == {CanaryVerdict.ROLL_BACK}
    assert all("p95_latency<=1.2x broken" in one.why for one in slow)
    better = [
        play(Arm(error_rate=0.2), Arm(error_rate=0.02, median_ms=50), rng=rng) for _ in range(8)
    ]
    assert {one.verdict for one in better} == {CanaryVerdict.PROMOTE}
    assert all(one.outcomes >= 100 for one in better)
