"""The complexity of a policy's pipeline: a score, what it costs in time, and what to do about it
(docs/reference/operators.md#complexity).

score   floor(60 n / 4) up to four extensions, above it 60 and 5 for each more (20 at most)
        + 5 for each kind with more than two
        + 4 for each above four (20 at most)                                        never above 100
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from router.policies.model.parse import (
    MAX_EXTENSIONS,
    MAX_OF_A_KIND,
    RECOMMENDED,
    RECOMMENDED_OF_A_KIND,
    count_by_kind,
)
from router.policies.model.policy import Pipeline

UNMEASURED_MS = 30  # an extension that was not called yet

LIMITS: Mapping[str, int] = {
    "max_total": RECOMMENDED,
    "max_pre": RECOMMENDED_OF_A_KIND,
    "max_validators": RECOMMENDED_OF_A_KIND,
    "max_post": RECOMMENDED_OF_A_KIND,
}


class Complexity(Struct, frozen=True, kw_only=True):
    """`get_pipeline_complexity`'s answer. `complexity_level`: low | medium | high | very_high."""

    total_extensions: int
    pre_count: int
    validators_count: int
    post_count: int
    complexity_score: int
    complexity_level: str
    estimated_latency_ms: float  # of all of them, one after the other
    recommended_limits: Mapping[str, int]
    warnings: tuple[str, ...]
    recommendations: tuple[str, ...]


def measure_complexity(
    pipeline: Pipeline, p50_ms: Callable[[str], float | None] = lambda _: None
) -> Complexity:
    """`p50_ms`: an extension's measured median, None where there is none."""
    by_kind = count_by_kind(pipeline)
    score = score_of(by_kind)
    uses = (*pipeline.pre, *pipeline.validators, *pipeline.post)
    measured = {use.id: p50_ms(use.id) for use in uses}
    return Complexity(
        total_extensions=len(uses),
        pre_count=by_kind["pre"],
        validators_count=by_kind["validators"],
        post_count=by_kind["post"],
        complexity_score=score,
        complexity_level=level_of(score),
        estimated_latency_ms=round(sum(_assume_median(measured[use.id]) for use in uses), 3),
        recommended_limits=LIMITS,
        warnings=tuple(_warnings(by_kind)),
        recommendations=tuple(_recommendations(by_kind, measured, is_parallel=pipeline.parallel)),
    )


def score_of(by_kind: Mapping[str, int]) -> int:
    total = sum(by_kind.values())
    above = max(0, total - RECOMMENDED)
    base = 60 * total // RECOMMENDED if not above else 60 + min(20, 5 * above)
    crowded = sum(count > RECOMMENDED_OF_A_KIND for count in by_kind.values())
    return min(100, base + 5 * crowded + min(20, 4 * above))


def level_of(score: int) -> str:
    return (
        "low" if score < 30 else "medium" if score < 60 else "high" if score < 80 else "very_high"
    )


def _warnings(by_kind: Mapping[str, int]) -> Iterator[str]:
    total = sum(by_kind.values())
    if total > MAX_EXTENSIONS:
        yield f"{total} extensions where {MAX_EXTENSIONS} are allowed: every request is refused"
    elif total > RECOMMENDED:
        yield f"{total} extensions where {RECOMMENDED} are recommended"
    for kind, count in by_kind.items():
        if count > MAX_OF_A_KIND:
            yield f"{count} in {kind} where {MAX_OF_A_KIND} are allowed: every request is refused"
        elif count > RECOMMENDED_OF_A_KIND:
            yield f"{count} in {kind} where {RECOMMENDED_OF_A_KIND} are recommended"


def _recommendations(
    by_kind: Mapping[str, int], measured: Mapping[str, float | None], *, is_parallel: bool
) -> Iterator[str]:
    for kind, count in by_kind.items():
        if count > RECOMMENDED_OF_A_KIND:
            yield f"join extensions of {kind}: each one is a round trip of every request"
    if not is_parallel and by_kind["validators"] > 1:
        yield 'say "parallel": true: validators do not depend on one another'
    slowest = max(measured, key=lambda name: measured[name] or 0.0, default=None)
    if slowest is not None and (median := measured[slowest]) is not None and median > UNMEASURED_MS:
        yield f"look at {slowest} first: its median is {median:.0f} ms"


def _assume_median(median: float | None) -> float:
    return UNMEASURED_MS if median is None else median
