"""The plan where run-time states are known: what follows from them is made once for each change, not for each request.

    breakers  ── StatesBehindBreakers.narrow ──> the plan without the blocked providers
    averages  ── set_averages ──> the plan's decision with the averages in place of the policy's figures

A decision is kept beside the averages that are in it, until one of them changes: it is the same object until then, so its encoding is
kept too.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from msgspec.structs import replace

from router.contracts.decision import Decision
from router.routing.breakers import HALF_OPEN, CircuitBreaker
from router.routing.policy.plan import DecisionPlan, find_able, find_top
from router.routing.policy.states import NO_STATES, AverageStates, ProviderState, ProviderStates

MAX_PLANS = 64  # of one tenant; beyond it all are made again as they are needed


class StatesBehindBreakers:
    """The states of a tenant while breakers are not closed: the averages, and which providers are blocked.

    While no breaker is half open, the blocked providers change with a transition, or when an opening ends, and plans are kept until then.
    While one is half open no plan is kept, because each probe may block the next request.

    `breakers`: those that are not closed, by provider; after a change of it, or of one of them, call `on_change`.
    """

    __slots__ = ("averages", "breakers", "plans", "until")

    def __init__(self) -> None:
        self.averages: ProviderStates = NO_STATES  # set anew by each reader of the states
        self.breakers: dict[str, CircuitBreaker] = {}
        # By the id of the whole plan, which stands beside the narrowed one, so that no id is used again.
        self.plans: dict[int, tuple[DecisionPlan, DecisionPlan]] = {}
        self.until = -inf  # for how long the plans are valid, on the breakers' clock

    def get(self, provider_id: str, /) -> ProviderState | None:
        state, breaker = self.averages.get(provider_id), self.breakers.get(provider_id)
        if breaker is None:
            return state
        return replace(state or ProviderState(), blocked_until=breaker.block_end())

    def on_change(self) -> None:
        self.until = -inf

    def narrow(self, plan: DecisionPlan, now: float) -> DecisionPlan:
        """Make and keep the plan without the providers that are blocked now; `plans` has those that are kept until `until`."""
        ends = {name: breaker.block_end() for name, breaker in self.breakers.items()}
        blocked = [name for name, end in ends.items() if now < end]
        if now >= self.until or len(self.plans) >= MAX_PLANS:
            self.plans.clear()
            is_probed = any(breaker.state == HALF_OPEN for breaker in self.breakers.values())
            self.until = -inf if is_probed else min((ends[name] for name in blocked), default=inf)
        narrowed = _leave_out(plan, blocked) if blocked else plan
        self.plans[id(plan)] = plan, narrowed
        return narrowed


def _leave_out(plan: DecisionPlan, blocked: Sequence[str]) -> DecisionPlan:
    able = [provider for provider in find_able(plan.providers.values()) if provider.name not in blocked]
    sticky = {name: decision for name, decision in plan.sticky.items() if name not in blocked}
    return replace(plan, top=find_top(able, plan.decisions, plan.usual_reason), sticky=sticky)


def set_averages(decision: Decision, states: AverageStates) -> Decision:
    """The decision with the moving averages of its provider in place of the policy's figures, where there are any."""
    learned = set_figures(decision, states.get(decision.provider_id))
    states.learned[id(decision)] = decision, learned
    return learned


def set_figures(decision: Decision, state: ProviderState | None) -> Decision:
    """The same with one provider's averages."""
    if state is None or (state.latency_ms is None and state.cost is None):
        return decision
    return replace(
        decision,
        expected_latency_ms=decision.expected_latency_ms if state.latency_ms is None else state.latency_ms,
        expected_cost=decision.expected_cost if state.cost is None else state.cost,
        samples=state.samples,
    )
