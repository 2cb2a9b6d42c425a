"""Who fails, by learned figures, is left out of a strategy's choice, and tried now and then
(docs/reference/policies.md#failing).

    find_sound ── the highest tier in which a provider does not fail, without those of it that do; the top one if all fail
    find_due   ── the one of those left out that this request probes, or None

How often: the figures say of a provider that fails which share of the requests may be its probe
(`probe_share`): none until a second after its last one. So a decision stays a function of its
request and its figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from router.contracts.request import RouteRequest
from router.policies.model.measurements import LearnedFigures, TenantFigures
from router.policies.model.policy import (
    DRAW_RANGE,
    DecisionPlan,
    Policy,
    Provider,
    Tier,
    make_tier,
    weighted_hash,
)

# Odd numbers without a pattern, as `strategy` has them: which requests may be probes, and of whom.
_WHETHER, _WHICH = 0x94D049BB133111EB, 0xBF58476D1CE4E5B9
_MASK = DRAW_RANGE - 1
MAX_KEPT = 64  # of one tenant

Figures = Mapping[str, LearnedFigures]


class SoundTier(Struct, frozen=True):
    """Whom a strategy chooses among, and who fails: beside them or in a higher tier; all of the
    plan where all fail.
    """

    tier: Tier
    failing: tuple[Provider, ...] = ()


def find_sound(plan: DecisionPlan, figures: Figures, *, is_kept: bool) -> SoundTier:
    """`plan.top` must be there. `is_kept`: the plan is the same object for many requests."""
    if not is_kept or not isinstance(figures, TenantFigures):
        return _find_sound(plan, figures)
    kept = figures.sound.get(id(plan))
    if kept is not None:
        return kept[1]  # type: ignore[return-value]
    if len(figures.sound) >= MAX_KEPT:
        figures.sound.clear()
    found = _find_sound(plan, figures)
    figures.sound[id(plan)] = plan, found
    return found


def find_due(
    policy: Policy, request: RouteRequest, failing: Sequence[Provider], figures: Figures
) -> Provider | None:
    """Drawn by the request, not by its session: else all requests of one session would be probes,
    or none.
    """
    point = weighted_hash(policy.version, request.tenant_id, request.request_key)
    least = point * _WHETHER & _MASK
    due = [one for one in failing if least < figures[one.name].probe_share * DRAW_RANGE]
    return due[(point * _WHICH & _MASK) * len(due) >> 64] if due else None


def may_keep_session(plan: DecisionPlan, name: str, figures: Figures) -> bool:
    """Whether a session stays at this provider: not where it fails and another one does not."""
    return not _is_failing(name, figures) or all(
        _is_failing(one.name, figures) for one in _list_candidates(plan)
    )


def _find_sound(plan: DecisionPlan, figures: Figures) -> SoundTier:
    assert plan.top is not None  # what the caller has looked at  # noqa: S101
    failing: list[Provider] = []
    for tier in (plan.top, *plan.lower):
        well = [one for one in tier.candidates if not _is_failing(one.name, figures)]
        failing += [one for one in tier.candidates if _is_failing(one.name, figures)]
        if well:
            is_whole = len(well) == len(tier.candidates)
            return SoundTier(
                tier if is_whole else make_tier(well, plan.decisions, plan.usual_reason),
                tuple(failing),
            )
    return SoundTier(plan.top, tuple(failing))


def _list_candidates(plan: DecisionPlan) -> Iterator[Provider]:
    for tier in (plan.top, *plan.lower):
        if tier is not None:
            yield from tier.candidates


def _is_failing(name: str, figures: Figures) -> bool:
    known = figures.get(name)
    return known is not None and known.is_failing
