"""The choice of a provider by learned figures, for the policies whose `strategy` says so
(docs/reference/policies.md#strategy). Who fails is left out, and tried now and then.

    figures ── who fails is left out, unless all do ──> the highest tier in which a provider does not fail
    a request that is pushed ── a share of all, and one in a second ──> probe: a provider that is left out, to see how it is
    the draw's point ── a share `explore` of all ──> any provider of the tier, so that each stays measured
                     ── `WAYS`, by the strategy's type:
                          least_latency ───────────> two providers by weight; the one with the lower score
                          cheapest ────────────────> of those that meet the objectives the cheapest; else the one that misses them least

Pure: the same request and the same figures give the same provider. A provider with too few outcomes
counts with the policy's figures, and as one that meets the objectives. Who is left out, and who is
due for a probe, is said by `find_sound` and `find_due`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from router.contracts.decision import Decision, RouteRequest
from router.policies.model.measurements import LearnedFigures, TenantFigures
from router.policies.model.narrowed import TraceStep
from router.policies.model.policy import (
    CHEAPEST,
    DEFAULT_COST,
    DRAW_RANGE,
    EXPLORE,
    LEAST_LATENCY,
    OBJECTIVES_MISSED,
    PROBE,
    REASONS_BY_STRATEGY,
    WEIGHTED,
    DecisionPlan,
    Policy,
    Provider,
    RoutingStrategy,
    Tier,
    make_tier,
    weighted_hash,
)

# -- Who fails, by learned figures, is left out of a strategy's choice, and tried now and then
# (docs/reference/policies.md#failing).
#
# find_sound ── the highest tier in which a provider does not fail, without those of it that do; the top one if all fail
# find_due   ── the one of those left out that this request probes, or None
#
# How often: the figures say of a provider that fails which share of the requests may be its probe
# (`probe_share`): none until a second after its last one. So a decision stays a function of its
# request and its figures.


# Odd numbers without a pattern, as `SECOND` is one: which requests may be probes, and of whom.
_IS_PROBE, _PROBED = 0x94D049BB133111EB, 0xBF58476D1CE4E5B9
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
    sound = _find_sound(plan, figures)
    figures.sound[id(plan)] = plan, sound
    return sound


def find_due(
    policy: Policy, request: RouteRequest, failing: Sequence[Provider], figures: Figures
) -> Provider | None:
    """Drawn by the request, not by its session: else all requests of one session would be probes,
    or none.
    """
    point = weighted_hash(policy.version, request.tenant_id, request.request_key)
    least = point * _IS_PROBE & _MASK
    due = [
        provider for provider in failing if least < figures[provider.name].probe_share * DRAW_RANGE
    ]
    return due[(point * _PROBED & _MASK) * len(due) >> 64] if due else None


def may_keep_session(plan: DecisionPlan, name: str, figures: Figures) -> bool:
    """Whether a session stays at this provider: not where it fails and another one does not."""
    return not _is_failing(name, figures) or all(
        _is_failing(provider.name, figures) for provider in _list_candidates(plan)
    )


def _find_sound(plan: DecisionPlan, figures: Figures) -> SoundTier:
    assert plan.top is not None  # what the caller has looked at  # noqa: S101
    failing: list[Provider] = []
    for tier in (plan.top, *plan.lower):
        well = [provider for provider in tier.candidates if not _is_failing(provider.name, figures)]
        failing += [provider for provider in tier.candidates if _is_failing(provider.name, figures)]
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
    learned = figures.get(name)
    return learned is not None and learned.is_failing


# -- The choice of a provider by learned figures, for the policies whose `strategy` says so.


# Odd numbers without a pattern: a point times one of them, modulo the range, is another point that
# a hash could have given.
SECOND, IS_EXPLORED, EXPLORED = 0x9E3779B97F4A7C15, 0xD1342543DE82EF95, 0xF1357AEA2E62A9C5
# of a provider that neither results nor the policy know: it is tried soon, and few times at once
UNKNOWN_LATENCY_MS = 1.0
MAX_CHOICES = 64  # kept of one tenant


def choose_by_figures(
    policy: Policy,
    plan: DecisionPlan,
    request: RouteRequest,
    key: str,
    figures: Figures,
    *,
    is_kept: bool = True,
) -> Decision:
    """The decision for a request that is drawn by `key`. `plan` is the policy's, without providers
    that may not be chosen.

    `plan.top` must be there. `is_kept`: the plan is the same object for many requests, so what
    follows from it is kept.
    """
    strategy, tier = policy.strategy, plan.top
    if (type(figures) is not TenantFigures or figures.failing) and (
        sound := find_sound(plan, figures, is_kept=is_kept)
    ).failing:
        tier = sound.tier
        if (
            request.push_assignment
            and (due := find_due(policy, request, sound.failing, figures)) is not None
        ):
            return plan.decisions[due.name, PROBE]
    assert strategy is not None  # what the caller has looked at  # noqa: S101
    assert tier is not None  # noqa: S101
    point = weighted_hash(policy.version, request.tenant_id, key) if tier.bounds else 0
    if tier.bounds and point * IS_EXPLORED & _MASK < strategy.explore * DRAW_RANGE:
        return plan.decisions[tier.candidates[find_explored(tier, point)].name, EXPLORE]
    return WAYS[strategy.type].choose(strategy, plan, tier, point, figures, is_kept)


def find_explored(tier: Tier, point: int) -> int:
    """Any of the tier, whatever its weight."""
    return (point * EXPLORED & _MASK) * len(tier.candidates) >> 64


def draw_two(bounds: Sequence[int], point: int) -> tuple[int, int]:
    """Two places by weight: the one that WEIGHTED draws, and one of the others. The same place
    twice: there is no other.
    """
    if not bounds:
        return 0, 0
    one = bisect_right(bounds, point)
    begin = bounds[one - 1] if one else 0
    width = (bounds[one] if one < len(bounds) else DRAW_RANGE) - begin
    # on the line without the first one's share
    at = (point * SECOND & _MASK) * (DRAW_RANGE - width) >> 64
    return one, bisect_right(bounds, at + width if at >= begin else at)


def score_of(provider: Provider, figures: Figures) -> float:
    """The lower, the better."""
    learned = figures.get(provider.name)
    if learned is not None and learned.score is not None:
        return learned.score
    expected = (
        UNKNOWN_LATENCY_MS if provider.expected_latency_ms is None else provider.expected_latency_ms
    )
    return expected if learned is None else expected * (learned.in_flight + 1)


def cost_of(provider: Provider, figures: Figures) -> float:
    """Of one success."""
    learned = figures.get(provider.name)
    if learned is not None and learned.cost is not None:
        return learned.cost
    return DEFAULT_COST if provider.expected_cost is None else provider.expected_cost


def excess_of(strategy: RoutingStrategy, provider: Provider, figures: Figures) -> float:
    """How many times the objectives are missed, by the one that is missed most; at most 1: they are
    met.
    """
    learned = figures.get(provider.name)
    latency_ms = (
        provider.expected_latency_ms
        if learned is None or learned.p95_latency_ms is None
        else learned.p95_latency_ms
    )
    excess = 0.0
    if strategy.p95_latency_ms is not None and latency_ms is not None:
        excess = latency_ms / strategy.p95_latency_ms
    if (
        strategy.success_rate is not None
        and learned is not None
        and learned.recent_success_rate is not None
    ):
        excess = max(excess, strategy.success_rate / max(learned.recent_success_rate, 1e-9))
    return excess


def _choose_faster(
    _strategy: RoutingStrategy,
    _plan: DecisionPlan,
    tier: Tier,
    point: int,
    figures: Figures,
    _is_kept: bool,
) -> Decision:
    one, other = draw_two(tier.bounds, point)
    candidates = tier.candidates
    is_first = one == other or score_of(candidates[one], figures) <= score_of(
        candidates[other], figures
    )
    return tier.decisions[one if is_first else other]


def _choose_cheapest(
    strategy: RoutingStrategy,
    plan: DecisionPlan,
    tier: Tier,
    _point: int,
    figures: Figures,
    is_kept: bool,
) -> Decision:
    """Once for all requests of a plan until the figures are made anew."""
    if not is_kept or not isinstance(figures, TenantFigures):
        return _find_cheapest(strategy, plan, tier, figures)
    kept = figures.choices.get(id(tier))
    if kept is not None:
        return kept[1]  # type: ignore[return-value]
    decision = _find_cheapest(strategy, plan, tier, figures)
    if len(figures.choices) >= MAX_CHOICES:
        figures.choices.clear()
    figures.choices[id(tier)] = tier, decision
    return decision


def _find_cheapest(
    strategy: RoutingStrategy, plan: DecisionPlan, tier: Tier, figures: Figures
) -> Decision:
    excess = {provider.name: excess_of(strategy, provider, figures) for provider in tier.candidates}
    able = [provider for provider in tier.candidates if excess[provider.name] <= 1]
    if able:
        return plan.decisions[
            min(able, key=lambda provider: cost_of(provider, figures)).name, CHEAPEST
        ]
    best = min(
        tier.candidates, key=lambda provider: (excess[provider.name], cost_of(provider, figures))
    )
    return plan.decisions[best.name, OBJECTIVES_MISSED]


def trace_candidates(
    strategy: RoutingStrategy, sound: SoundTier, point: int, figures: Figures, reason: str
) -> Iterator[TraceStep]:
    """What was left out, and what was compared, for a trace."""
    for provider in sound.failing:
        yield TraceStep("candidate", provider.name, "its results fail: left out, but for probes")
    if reason not in (EXPLORE, PROBE):
        yield from WAYS[strategy.type].compare(strategy, sound.tier, point, figures)


def _list_scores(
    _strategy: RoutingStrategy, tier: Tier, point: int, figures: Figures
) -> Iterator[TraceStep]:
    for place in dict.fromkeys(draw_two(tier.bounds, point)):
        provider = tier.candidates[place]
        score = f"score {score_of(provider, figures):.6g}"
        yield TraceStep("candidate", provider.name, f"{score}{_describe_source(provider, figures)}")


def _list_costs(
    strategy: RoutingStrategy, tier: Tier, _point: int, figures: Figures
) -> Iterator[TraceStep]:
    for provider in tier.candidates:
        excess = excess_of(strategy, provider, figures)
        met = "meets the objectives" if excess <= 1 else f"misses an objective {excess:.3g} times"
        yield TraceStep(
            "candidate",
            provider.name,
            f"cost {cost_of(provider, figures):.6g}, {met}{_describe_source(provider, figures)}",
        )


def _describe_source(provider: Provider, figures: Figures) -> str:
    learned = figures.get(provider.name)
    return (
        ""
        if learned is not None and learned.score is not None
        else ", too few results: by the policy"
    )


class Way(Struct, frozen=True):
    """How one strategy chooses among the providers of a tier that do not fail, and what it says of
    them in a trace. `choose` gets the draw's point, and whether the plan is kept.
    """

    choose: Callable[[RoutingStrategy, DecisionPlan, Tier, int, Figures, bool], Decision]
    compare: Callable[[RoutingStrategy, Tier, int, Figures], Iterator[TraceStep]]


WAYS: Mapping[str, Way] = {
    LEAST_LATENCY: Way(_choose_faster, _list_scores),
    CHEAPEST: Way(_choose_cheapest, _list_costs),
}


def check_ways(ways: Mapping[str, Way], reasons: Mapping[str, Sequence[str]]) -> None:
    """Raise ValueError for a strategy that a policy may name and that chooses in no way, or that
    lacks a reason with which every one chooses.
    """
    if differing := (reasons.keys() - {WEIGHTED}) ^ ways.keys():
        names = ", ".join(sorted(differing))
        raise ValueError(f"REASONS_BY_STRATEGY and WAYS differ in the strategies {names}")
    for name in ways:
        if lacking := {name, EXPLORE, PROBE} - {*reasons[name]}:
            raise ValueError(f"REASONS_BY_STRATEGY: {name} lacks {', '.join(sorted(lacking))}")


check_ways(WAYS, REASONS_BY_STRATEGY)
