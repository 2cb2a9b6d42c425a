"""How heavy a pipeline is, by the reference's own samples."""

import pytest

from router.extensions.model import Complexity, measure_complexity
from tests.support.policy import a_policy

SAMPLES = [
    (0, 0, 0, 0, "low"),
    (1, 0, 0, 15, "low"),
    (1, 1, 0, 30, "medium"),
    (1, 1, 1, 45, "medium"),
    (2, 1, 1, 60, "high"),
    (2, 2, 1, 69, "high"),
    (2, 2, 2, 78, "high"),
    (2, 3, 2, 92, "very_high"),
    (3, 3, 3, 100, "very_high"),
]


def of(
    pre: int = 0, validators: int = 0, post: int = 0, parallel: bool = True, **medians: float
) -> Complexity:
    sections = {
        kind: [{"id": f"{kind}-{n}"} for n in range(count)]
        for kind, count in (("pre", pre), ("validators", validators), ("post", post))
    }
    known = {name.replace("_", "-"): median for name, median in medians.items()}
    return measure_complexity(a_policy(**sections, parallel=parallel).pipeline, known.get)


@pytest.mark.parametrize(("pre", "validators", "post", "score", "level"), SAMPLES)
def test_the_score_is_the_references(
    pre: int, validators: int, post: int, score: int, level: str
) -> None:
    found = of(pre, validators, post)
    assert (found.complexity_score, found.complexity_level) == (score, level)
    assert (found.total_extensions, found.pre_count, found.validators_count, found.post_count) == (
        pre + validators + post,
        pre,
        validators,
        post,
    )


def test_an_extension_that_was_measured_counts_its_median_and_the_others_thirty() -> None:
    assert of(2, 1, 0, pre_0=12.3456).estimated_latency_ms == 72.346
    assert of().estimated_latency_ms == 0


def test_what_is_recommended_is_told_and_what_is_above_it_warned_of() -> None:
    assert of(2, 1, 1).recommended_limits == {
        "max_total": 4,
        "max_pre": 2,
        "max_validators": 2,
        "max_post": 2,
    }
    assert of(2, 1, 1).warnings == of(2, 2).recommendations == ()
    assert of(3, 1).recommendations == (
        "join extensions of pre: each one is a round trip of every request",
    )
    assert of(3, 1, 1).warnings == (
        "5 extensions where 4 are recommended",
        "3 in pre where 2 are recommended",
    )


def test_validators_one_after_the_other_are_told_of_parallel() -> None:
    assert of(0, 1, parallel=False).recommendations == ()
    assert of(0, 2, parallel=False).recommendations == (
        'say "parallel": true: validators do not depend on one another',
    )


def test_a_pipeline_that_no_request_can_pass_is_warned_of() -> None:
    assert of(5, 5, 1).warnings[0] == "11 extensions where 10 are allowed: every request is refused"
    assert "6 in pre where 5 are allowed: every request is refused" in of(6).warnings
    assert of(5, 4, 1).warnings[:2] == (
        "10 extensions where 4 are recommended",
        "5 in pre where 2 are recommended",
    )


def test_the_slowest_is_named() -> None:
    assert of(2, 0, 0, pre_0=31.0, pre_1=400.0).recommendations == (
        "look at pre-1 first: its median is 400 ms",
    )
    assert of(1, 0, 0, pre_0=30.0).recommendations == ()
