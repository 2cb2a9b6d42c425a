"""What follows from a policy alone, computed once at load so that no request computes it again.

The plan holds one Decision for each (provider, reason), with the policy's own figures. The engine
returns that same object each time, so callers may cache its encoding by identity
(`contracts.answer`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product

from msgspec import Struct

from router.contracts.decision import Decision
from router.policies.model.document import Provider
from router.policies.model.draw import cumulative_weights

STICKY = "sticky"
WEIGHTED = "weighted"
RETRY = "retry"
FALLBACK = "fallback"
CIRCUIT_BREAKER_FALLBACK = "circuit_breaker_fallback"
LEAST_LATENCY = "least_latency"
CHEAPEST = "cheapest"
OBJECTIVES_MISSED = "objectives_missed"
EXPLORE = "explore"
PROBE = "probe"

PRIORITIES: Mapping[str, int] = {
    STICKY: 100,
    **dict.fromkeys(
        (WEIGHTED, LEAST_LATENCY, CHEAPEST, OBJECTIVES_MISSED, EXPLORE, PROBE, RETRY), 50
    ),
    FALLBACK: 25,
    CIRCUIT_BREAKER_FALLBACK: 20,
}
OF_EVERY_POLICY = (STICKY, RETRY, FALLBACK, CIRCUIT_BREAKER_FALLBACK)
# The reasons of a choice among several, by strategy; the first is the usual one.
REASONS_BY_STRATEGY: Mapping[str, Sequence[str]] = {
    WEIGHTED: (WEIGHTED,),
    LEAST_LATENCY: (LEAST_LATENCY, EXPLORE, PROBE),
    CHEAPEST: (CHEAPEST, OBJECTIVES_MISSED, EXPLORE, PROBE),
}
DEFAULT_LATENCY_MS = 500
DEFAULT_COST = 0.01


class Tier(Struct, frozen=True):
    """The candidates of one priority, with their usual decision, and where their shares of the line
    end.
    """

    decisions: tuple[Decision, ...]
    bounds: tuple[int, ...]
    candidates: tuple[Provider, ...]


class DecisionPlan(Struct, frozen=True):
    """`top`, `lower` and `sticky` are valid while nothing is blocked (else see `narrowed`) and a
    request has no limits; `decisions` has all.
    """

    providers: Mapping[str, Provider]
    # by (provider, reason); fallback targets included
    decisions: Mapping[tuple[str, str], Decision]
    top: Tier | None  # None: no provider is enabled with a weight
    sticky: Mapping[str, Decision]  # by provider; empty unless the policy is sticky
    usual_reason: str = WEIGHTED  # of a provider of `top`
    # the tiers below `top`, the highest first, which a strategy needs where all of `top` fail
    lower: tuple[Tier, ...] = ()


def make_plan(
    providers: Sequence[Provider],
    targets: Iterable[str],
    *,
    is_sticky: bool,
    metadata: Mapping[str, str],
    usual_reason: str = WEIGHTED,
) -> DecisionPlan:
    """`targets` are the providers that fallback rules name; some may be known nowhere else."""
    by_name = {provider.name: provider for provider in providers}
    names = dict.fromkeys([*by_name, *targets])
    reasons = (*OF_EVERY_POLICY, *REASONS_BY_STRATEGY[usual_reason])
    decisions = {
        (name, reason): _make_decision(name, reason, by_name.get(name), metadata)
        for name, reason in product(names, reasons)
    }
    able = find_able(providers)
    sticky = (
        {provider.name: decisions[provider.name, STICKY] for provider in able} if is_sticky else {}
    )
    tiers = list_tiers(able, decisions, usual_reason)
    return DecisionPlan(
        by_name, decisions, tiers[0] if tiers else None, sticky, usual_reason, tiers[1:]
    )


def find_able(providers: Iterable[Provider]) -> list[Provider]:
    """Those that a draw may choose while no breaker blocks them."""
    return [provider for provider in providers if provider.enabled and provider.weight > 0]


def list_tiers(
    able: Sequence[Provider], decisions: Mapping[tuple[str, str], Decision], usual_reason: str
) -> tuple[Tier, ...]:
    """The tiers that requests without limits draw from, the highest first; by weight only the
    highest is ever looked at.
    """
    priorities = sorted({provider.priority for provider in able}, reverse=True)
    looked_at = priorities[:1] if usual_reason == WEIGHTED else priorities
    return tuple(
        make_tier([one for one in able if one.priority == priority], decisions, usual_reason)
        for priority in looked_at
    )


def make_tier(
    tier: Sequence[Provider], decisions: Mapping[tuple[str, str], Decision], usual_reason: str
) -> Tier:
    """Of these providers, in the order of the document. `tier` must not be empty."""
    usual, weights = (
        (decisions[provider.name, usual_reason] for provider in tier),
        (provider.weight for provider in tier),
    )
    return Tier(tuple(usual), cumulative_weights(tuple(weights)), tuple(tier))


def _make_decision(
    name: str, reason: str, provider: Provider | None, metadata: Mapping[str, str]
) -> Decision:
    latency_ms = provider.expected_latency_ms if provider else None
    cost = provider.expected_cost if provider else None
    return Decision(
        provider_id=name,
        reason=reason,
        priority=PRIORITIES[reason],
        expected_latency_ms=DEFAULT_LATENCY_MS if latency_ms is None else latency_ms,
        expected_cost=DEFAULT_COST if cost is None else cost,
        metadata=metadata,
        listed_cost=DEFAULT_COST if cost is None else cost,
    )
