"""How many extensions a policy's pipeline may have (docs/reference/policies.md#pipeline)."""

import pytest

from router.policies.model.conditions import match_always
from router.policies.model.parse import check_depth
from router.policies.model.policy import ExtensionUse, Pipeline


def a_pipeline(pre: int, validators: int, post: int) -> Pipeline:
    use = ExtensionUse("e", "required", {}, {}, match_always)
    return Pipeline((use,) * pre, (use,) * validators, (use,) * post)


@pytest.mark.parametrize("counts", [(0, 0, 0), (5, 5, 0), (0, 5, 5), (3, 4, 3)])
def test_ten_extensions_and_five_of_a_kind_are_within_the_limits(
    counts: tuple[int, int, int],
) -> None:
    assert check_depth(a_pipeline(*counts)) is None


@pytest.mark.parametrize(
    ("counts", "reason", "count", "most"),
    [
        ((4, 4, 3), "pipeline_too_deep", 11, 10),
        ((6, 6, 6), "pipeline_too_deep", 18, 10),
        ((6, 0, 0), "too_many_pre_processors", 6, 5),
        ((0, 6, 0), "too_many_validators", 6, 5),
        ((0, 0, 6), "too_many_post_processors", 6, 5),
    ],
)
def test_every_request_of_a_policy_with_more_is_refused_and_told_the_limit(
    counts: tuple[int, int, int], reason: str, count: int, most: int
) -> None:
    refusal = check_depth(a_pipeline(*counts))
    assert refusal is not None
    assert refusal.details == {"reason": reason, "count": count, "max": most}
