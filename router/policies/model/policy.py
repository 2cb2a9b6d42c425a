"""One policy in memory, and the table of all.

document   its content as frozen values: one struct for each kind of object in it
draw       a hash is a point on a line of 2^64, which is cut into shares by weight
plan       what follows from it alone, computed once at load
Policy     all this, read, checked and ready; `parse_policy` makes it
table      replaced as a whole: a request sees the old set or the new one, never a mixture
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate, product
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct

from router.contracts.canary import CanaryPlan
from router.contracts.decision import OF_CANDIDATE, Decision, Refusal
from router.policies.model.conditions import Condition

# -- The content of a policy document.
#
#     Policy
#       ├─ Provider*       a candidate for the choice
#       ├─ Fallback*       a rule for when no provider is eligible, or a failure is reported
#       ├─ StickySessions? keep a session at its provider
#       ├─ BreakerConfig?  thresholds of the providers' circuit breakers
#       ├─ RoutingStrategy?       how one of the candidates is chosen, where not by weight
#       ├─ RateLimit?      how often the policy may be asked
#       └─ Pipeline        which extensions run before and after the choice
#
# Bounds and defaults are the parser's; `None` in place of an object means absent or
# `"enabled": false`. Source: docs/reference/policies.md#document.


class Provider(Struct, frozen=True):
    """A candidate. `weight` is its share within its priority tier; the highest tier with an
    eligible provider wins.
    """

    name: str
    weight: float  # 0..100
    priority: int = 50  # 0..100
    expected_latency_ms: float | None = None
    expected_cost: float | None = None
    enabled: bool = True
    model: str | None = None  # which of the provider's models is asked
    parameters: str | None = None  # of the call, a JSON object as text


class Fallback(Struct, frozen=True):
    """One rule: the same provider again while attempts are left (`retry`), then provider `to`."""

    to: str
    when: Mapping[str, object]  # as written: lint and explain read it
    applies: Condition  # the same, compiled
    retry: int = 1  # further attempts at the same provider
    backoff_ms: tuple[int, ...] = ()  # pause before each retry; the last repeats


class StickySessions(Struct, frozen=True):
    """Session affinity: requests with the same `context[session_key]` stay with one provider for
    `ttl_s` seconds.
    """

    session_key: str = "session_id"
    ttl_s: int = 600


class BreakerConfig(Struct, frozen=True):
    """The thresholds of the circuit breakers of this policy's providers, one per (tenant,
    provider).
    """

    failure_threshold: int = 5
    success_threshold: int = 2
    timeout_ms: int = 60_000
    half_open_max_calls: int = 3
    error_rate_threshold: float = 0.5
    error_rate_window_seconds: int = 60
    minimum_calls: int = 10
    latency_threshold_ms: float | None = None


class RoutingStrategy(Struct, frozen=True):
    """A choice by learned figures: of two drawn providers the faster one, or of all the cheapest
    that meets the objectives.
    """

    type: str  # a key of REASONS_BY_STRATEGY but `weighted`
    # 0..1: this share of requests goes to any provider of the tier, so that each stays measured
    explore: float = 0.01
    p95_latency_ms: float | None = None  # objectives of cheapest
    success_rate: float | None = None


class RateLimit(Struct, frozen=True):
    """A token bucket per (tenant, policy), over all instances."""

    requests_per_second: float
    burst: int


class ExtensionUse(Struct, frozen=True):
    """One extension in a pipeline. `mode`: required | optional, of a validator block | warn | ignore."""

    id: str
    mode: str
    config: Mapping[str, object]
    when: Mapping[str, object]
    applies: Condition
    timeout_ms: int | None = None  # None: the registry's
    retry: int | None = None  # None: the registry's


class Pipeline(Struct, frozen=True):
    """The extensions of a policy, each kind in the order of the document."""

    pre: tuple[ExtensionUse, ...] = ()
    validators: tuple[ExtensionUse, ...] = ()
    post: tuple[ExtensionUse, ...] = ()
    parallel: bool = False  # neighbours of one stage may run side by side

    @property
    def is_empty(self) -> bool:
        return not (self.pre or self.validators or self.post)


class PolicyFinding(Struct, frozen=True):
    """A remark about a document: `severity` is warning or error, `path` is like
    `providers[1].weight`.
    """

    path: str
    severity: str
    message: str


# -- The weighted draw.
#
# The point is a hash of (policy version, tenant, key), so the same request draws the same provider
# on every instance and every Python version, and a recorded decision can be computed again. Shares
# are integers: no value is rounded twice.

DRAW_RANGE = 1 << 64
MAX_FEW_WEIGHTS = 16  # weights


def weighted_hash(version: int, tenant_id: str, key: str) -> int:
    """The point of a draw, 0 to 2^64 - 1. A tenant id holds no NUL, so different triples are
    different texts.
    """
    text = f"{version}\0{tenant_id}\0{key}"
    # Half of a surrogate pair is no UTF-8, but a draw never raises.
    return int.from_bytes(
        blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big"
    )


def cumulative_weights(weights: tuple[float, ...]) -> tuple[int, ...]:
    """Where each share but the last ends; `bisect_right(ends, point)` is the index of the drawn
    one. Weights are above 0.
    """
    return _bounds_of_few(weights) if len(weights) <= MAX_FEW_WEIGHTS else _bounds_of_many(weights)


def _compute(weights: tuple[float, ...]) -> tuple[int, ...]:
    sums = list(accumulate(_to_fractions(weights)))
    return tuple(int(DRAW_RANGE * part / sums[-1]) for part in sums[:-1])


def _to_fractions(weights: Iterable[float]) -> Iterable[Fraction]:
    return map(Fraction, weights)


# 500 weights and their ends take 50 kB. A cache is bounded by its number of entries, so large ones
# have a smaller cache.
_bounds_of_few = lru_cache(maxsize=4096)(_compute)
_bounds_of_many = lru_cache(maxsize=128)(_compute)


# -- The plan: what follows from a policy alone, computed once at load.
#
# It holds one Decision for each (provider, reason), with the policy's own figures. The engine
# returns that same object each time, so callers may cache its encoding by identity
# (`contracts.answer`).

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

OF_EVERY_POLICY = (STICKY, RETRY, FALLBACK, CIRCUIT_BREAKER_FALLBACK)
# The reasons of a choice among several, by strategy; the first is the usual one. How each strategy
# chooses: `WAYS` in `policies.model.strategy`.
REASONS_BY_STRATEGY: Mapping[str, Sequence[str]] = {
    WEIGHTED: (WEIGHTED,),
    LEAST_LATENCY: (LEAST_LATENCY, EXPLORE, PROBE),
    CHEAPEST: (CHEAPEST, OBJECTIVES_MISSED, EXPLORE, PROBE),
}
PRIORITIES: Mapping[str, int] = {
    STICKY: 100,
    **{reason: 50 for reasons in REASONS_BY_STRATEGY.values() for reason in reasons},
    RETRY: 50,
    FALLBACK: 25,
    CIRCUIT_BREAKER_FALLBACK: 20,
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
    named = {name: _name_call(by_name.get(name), metadata) for name in names}
    decisions = {
        (name, reason): _make_decision(name, reason, by_name.get(name), named[name])
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
        make_tier(
            [candidate for candidate in able if candidate.priority == priority],
            decisions,
            usual_reason,
        )
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


def _name_call(provider: Provider | None, metadata: Mapping[str, str]) -> Mapping[str, str]:
    """The metadata of a candidate's decisions: the policy's, and what its provider is asked
    with.
    """
    told = {
        name: text for name in OF_CANDIDATE if (text := getattr(provider, name, None)) is not None
    }
    return {**metadata, **told} if told else metadata


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


# -- The policy, and the table of all.

SHARED = "_shared"  # the tenant of policies that every tenant may use


class Policy(Struct, frozen=True, kw_only=True):
    """Read, checked and ready; `parse_policy` makes it. `tenant_id` is the key it is stored under,
    or `_shared`.
    """

    tenant_id: str
    policy_id: str
    version: int
    providers: tuple[Provider, ...]
    fallbacks: tuple[Fallback, ...]
    strategy: RoutingStrategy | None  # None: by weight
    sticky: StickySessions | None
    circuit_breaker: BreakerConfig | None
    rate_limit: RateLimit | None
    timeout_ms: int | None
    is_high: bool  # of what waits of its tenant, its requests go first
    pipeline: Pipeline
    metadata: Mapping[str, object]
    plan: DecisionPlan
    refusal: Refusal | None  # the answer to every request, when the pipeline is too deep
    arm: str | None = None  # control | candidate, while a canary runs
    canary: PolicyCanary | None = None  # of the version in force


class PolicyCanary(Struct, frozen=True):
    """What is tried beside a policy: requests whose point is below `bound` (of 2^64) are decided by
    `candidate`.
    """

    candidate: Policy
    bound: int
    plan: CanaryPlan


def list_arms(policies: Iterable[Policy]) -> Iterator[Policy]:
    """Each policy, and its candidate behind it."""
    for policy in policies:
        yield policy
        if policy.canary is not None:
            yield policy.canary.candidate


class PolicyFinder(Protocol):
    """The port by which the decide handler finds policies."""

    def find(self, tenant_id: str, policy_id: str) -> Policy | None:
        """(tenant, id), else (`_shared`, id), else None."""
        ...


Key = tuple[str, str]  # tenant (or `_shared`), policy


class PolicyTable:
    """A `PolicyFinder` in memory."""

    def __init__(self, policies: Mapping[Key, Policy] | None = None) -> None:
        self.replace(policies or {})

    def find(self, tenant_id: str, policy_id: str) -> Policy | None:
        """(tenant, id), else (`_shared`, id), else None."""
        table = self._table
        return table.get((tenant_id, policy_id)) or table.get((SHARED, policy_id))

    def has_tenant(self, tenant_id: str) -> bool:
        """Whether the tenant has at least one policy of its own."""
        return tenant_id in self._tenants

    def is_high(self, tenant_id: str, policy_id: str) -> bool:
        """Whether requests of this policy go first among those of their tenant."""
        policy = self.find(tenant_id, policy_id)
        return policy is not None and policy.is_high

    def replace(self, policies: Mapping[Key, Policy]) -> None:
        self._table = dict(policies)
        self._all = MappingProxyType(self._table)
        self._tenants = frozenset(tenant_id for tenant_id, _ in self._table)
        self.has_high = any(policy.is_high for policy in self._table.values())

    def get_all(self) -> Mapping[Key, Policy]:
        """The whole table: the same object until the next `replace`, so that a caller can tell by
        identity whether it changed.
        """
        return self._all
