"""The run-time states of providers, and the plan where they are known: what follows from them is
made once for each change, not for each request.

    breakers, limits  ── StatesBehindBreakers.narrow ──> the plan without the blocked providers
    averages          ── set_averages ──> the plan's decision with the averages in place of the policy's figures

A decision is kept beside the averages that are in it, until one of them changes: it is the same
object until then, so its encoding is kept too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from router.contracts.decision import Decision
from router.core.breakers import HALF_OPEN, CircuitBreaker
from router.policies.model.policy import DecisionPlan, find_able, list_tiers
from router.policies.model.rate_limits import RateClosure

# -- The run-time states of providers as `evaluate` reads them. Values only: other files measure
# and change them.


class ProviderState(Struct, frozen=True):
    """One provider, for one tenant. None: no result has come yet."""

    # the breaker blocks every call until this time, on the clock of `now`
    blocked_until: float = 0.0
    latency_ms: float | None = None  # moving average
    cost: float | None = None  # moving average
    samples: int = 0  # successes in these averages, of this instance
    limited_until: float = 0.0  # a rate limit blocks every call until this time, as a breaker does


NO_AVERAGES: Mapping[str, ProviderState] = MappingProxyType({})


class ProviderStates(Protocol):
    """The states of one tenant's providers, by name; a dict will do."""

    def get(self, provider_id: str, /) -> ProviderState | None: ...


class AverageStates(dict[str, ProviderState]):
    """Averages alone: none of these providers is blocked.

    `learned`: decisions with these averages, each beside the plan's decision whose id is its key; a
    change of an average clears it.
    """

    __slots__ = ("learned",)

    def __init__(self, averages: Mapping[str, ProviderState] = NO_AVERAGES) -> None:
        super().__init__(averages)
        self.learned: dict[int, tuple[Decision, Decision]] = {}


# the common case: `evaluate` compares by identity and takes its fast path
NO_STATES: Mapping[str, ProviderState] = MappingProxyType({})


# in a retry's metadata: how many attempts there were, read by the next follow-up
ATTEMPTS = "attempts"


class PreviousAttempt(Struct, frozen=True):
    """The earlier assignment that a request follows up: its provider, and the number of attempts so
    far.
    """

    provider_id: str
    attempts: int


class TraceStep(Struct, frozen=True):
    """One line of a trace: the subject (a provider, or a rule's path) and the verdict on it."""

    # pipeline | eligible | fallback | sticky | candidate, or the reason of a choice among several
    stage: str
    subject: str
    verdict: str


# -- The plan where run-time states are known: what follows from them is made once for each
# change, not for each request.


MAX_PLANS = 64  # of one tenant; beyond it all are made again as they are needed


class StatesBehindBreakers:
    """The states of a tenant while breakers are not closed, or providers limit it: the averages,
    and who is blocked.

    While nothing is probed, the blocked providers change with a transition, or when an opening
    ends, and plans are kept until then. While a breaker is half open, or a rate limit has just
    ended, no plan is kept, because each probe may block the next request.

    `breakers`: those that are not closed, by provider; `limits`: the rate limits; after a change of
    them, or of one of them, call `on_change`.
    """

    __slots__ = ("averages", "breakers", "limits", "plans", "until")

    def __init__(self) -> None:
        self.averages: ProviderStates = NO_STATES  # set anew by each reader of the states
        self.breakers: dict[str, CircuitBreaker] = {}
        self.limits: dict[str, RateClosure] = {}
        # By the id of the whole plan, which stands beside the narrowed one, so that no id is used
        # again.
        self.plans: dict[int, tuple[DecisionPlan, DecisionPlan]] = {}
        self.until = -inf  # for how long the plans are valid, on the breakers' clock

    def get(self, provider_id: str, /) -> ProviderState | None:
        state, breaker, limit = (
            self.averages.get(provider_id),
            self.breakers.get(provider_id),
            self.limits.get(provider_id),
        )
        if breaker is None and limit is None:
            return state
        blocked_until = breaker.block_end() if breaker is not None else 0.0
        limited_until = limit.block_end() if limit is not None else 0.0
        return replace(
            state or ProviderState(), blocked_until=blocked_until, limited_until=limited_until
        )

    def is_probing(self, provider_id: str) -> bool:
        """Whether a decision for this provider may be a probe, so that its breaker or its limit
        must be told.
        """
        return provider_id in self.breakers or provider_id in self.limits

    def on_change(self) -> None:
        self.until = -inf

    def narrow(self, plan: DecisionPlan, now: float) -> DecisionPlan:
        """Make and keep the plan without the providers that are blocked now; `plans` has those that
        are kept until `until`.
        """
        ends = self._list_ends()
        blocked = [name for name, end in ends.items() if now < end]
        if now >= self.until or len(self.plans) >= MAX_PLANS:
            self.plans.clear()
            is_probed = any(breaker.state == HALF_OPEN for breaker in self.breakers.values())
            is_probed = is_probed or any(limit.until <= now for limit in self.limits.values())
            self.until = -inf if is_probed else min((ends[name] for name in blocked), default=inf)
        narrowed = _leave_out(plan, blocked) if blocked else plan
        self.plans[id(plan)] = plan, narrowed
        return narrowed

    def _list_ends(self) -> dict[str, float]:
        ends = {name: breaker.block_end() for name, breaker in self.breakers.items()}
        for name, limit in self.limits.items():
            ends[name] = max(ends.get(name, 0.0), limit.block_end())
        return ends


class BlockedTenants(dict[str, StatesBehindBreakers]):
    """By tenant, while a breaker of it is not closed, or a provider limits it. Breakers and limits
    share it.
    """

    def enter(self, tenant_id: str) -> StatesBehindBreakers:
        """The tenant's states, for a change of them."""
        shut = self.get(tenant_id)
        if shut is None:
            shut = self[tenant_id] = StatesBehindBreakers()
        shut.on_change()
        return shut

    def drop_if_free(self, tenant_id: str) -> None:
        """After something was removed from the tenant's states."""
        shut = self.get(tenant_id)
        if shut is not None:
            shut.on_change()
            if not shut.breakers and not shut.limits:
                del self[tenant_id]


def _leave_out(plan: DecisionPlan, blocked: Sequence[str]) -> DecisionPlan:
    able = [
        provider for provider in find_able(plan.providers.values()) if provider.name not in blocked
    ]
    sticky = {name: decision for name, decision in plan.sticky.items() if name not in blocked}
    tiers = list_tiers(able, plan.decisions, plan.usual_reason)
    return replace(plan, top=tiers[0] if tiers else None, lower=tiers[1:], sticky=sticky)


def set_averages(decision: Decision, states: AverageStates) -> Decision:
    """The decision with the moving averages of its provider in place of the policy's figures, where
    there are any.
    """
    learned = set_figures(decision, states.get(decision.provider_id))
    states.learned[id(decision)] = decision, learned
    return learned


def set_figures(decision: Decision, state: ProviderState | None) -> Decision:
    """The same with one provider's averages."""
    if state is None or (state.latency_ms is None and state.cost is None):
        return decision
    return replace(
        decision,
        expected_latency_ms=decision.expected_latency_ms
        if state.latency_ms is None
        else state.latency_ms,
        expected_cost=decision.expected_cost if state.cost is None else state.cost,
        samples=state.samples,
    )
