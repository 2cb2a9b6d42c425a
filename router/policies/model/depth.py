"""The limits of a pipeline: at most 10 extensions and 5 of a kind; 4 and 2 are recommended."""

from __future__ import annotations

from router.contracts.decision import INVALID_REQUEST, Refusal
from router.policies.model.policy import Pipeline

MAX_EXTENSIONS, MAX_OF_A_KIND = 10, 5
RECOMMENDED, RECOMMENDED_OF_A_KIND = 4, 2


def count_by_kind(pipeline: Pipeline) -> dict[str, int]:
    return {
        "pre": len(pipeline.pre),
        "validators": len(pipeline.validators),
        "post": len(pipeline.post),
    }


def check_depth(pipeline: Pipeline) -> Refusal | None:
    """The refusal for every request of a policy that has too many extensions; None: the pipeline is
    within the limits.
    """
    by_kind = count_by_kind(pipeline)
    if sum(by_kind.values()) > MAX_EXTENSIONS:
        return _refusal("pipeline_too_deep", sum(by_kind.values()), MAX_EXTENSIONS)
    reasons = {
        "pre": "too_many_pre_processors",
        "validators": "too_many_validators",
        "post": "too_many_post_processors",
    }
    for kind, count in by_kind.items():
        if count > MAX_OF_A_KIND:
            return _refusal(reasons[kind], count, MAX_OF_A_KIND)
    return None


def _refusal(reason: str, count: int, most: int) -> Refusal:
    details = {"reason": reason, "count": count, "max": most}
    return Refusal(
        INVALID_REQUEST,
        f"The policy's pipeline has {count} extensions where {most} are allowed: {reason}",
        details,
    )
