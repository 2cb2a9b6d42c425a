"""The choice of a request's provider: its session, the states of the tenant's providers, the
engine, the tenant's budgets.

session ── remembered? ──┐
states of the tenant ────┴──> evaluate ──> budgets ──> decision ──> the session is remembered, a half-open breaker is told of its probe
                                              └── no room ──> refused, or chosen by another policy
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from router.budgets.model import BudgetSlice, TenantBudgets
from router.budgets.model.spent_budgets import Downgrades, find_downgrade, refuse_for_budget
from router.contracts.decision import Decision, Refusal
from router.contracts.request import RouteRequest
from router.decide.model.recorder import Evaluator
from router.policies.model import (
    PROBE,
    Policy,
    PolicyFinder,
    PreviousAttempt,
    ProviderStates,
    Sessions,
    StatesBehindBreakers,
    evaluate_shadow,
    read_session,
)
from router.policies.model.canary_meter import CanaryMeter
from router.policies.model.measurements import NO_FIGURES, LearnedFigures


class SessionMeter(Protocol):
    """Counts what became of sessions."""

    def on_session(self, outcome: str) -> None:
        """hit | miss | moved."""


class ProviderChooser:
    """`states`: those of a tenant's providers; NO_STATES costs nothing. `figures`: what a strategy
    looks at.

    `on_decision` gets each decision that may be a probe: of a provider whose breaker is not closed,
    that limits the tenant, or that fails. `evaluate`: the engine's own, or the same recorded.
    `budgets`: by tenant; `policies`: those that a budget may name.
    """

    def __init__(
        self,
        sessions: Sessions,
        meter: SessionMeter,
        *,
        states: Callable[[str], ProviderStates],
        on_decision: Callable[[str, Decision], None],
        evaluate: Evaluator,
        figures: Callable[[str], Mapping[str, LearnedFigures]],
        canaries: CanaryMeter,
        budgets: Mapping[str, TenantBudgets],
        policies: PolicyFinder,
    ) -> None:
        self._sessions = sessions
        self._meter = meter
        self._states = states
        self._on_decision = on_decision
        self._evaluate = evaluate
        self._figures = figures
        self._canaries = canaries
        self._budgets = budgets
        self._policies = policies
        self._downgrades = Downgrades()

    def choose(
        self,
        policy: Policy,
        request: RouteRequest,
        now: float,
        previous: PreviousAttempt | None,
        passed_over: Sequence[BudgetSlice] = (),
    ) -> Decision | Refusal:
        """The decision of a policy whose extensions were called.

        `passed_over`: budgets without room, which chose this policy. Raises SliceShort where a
        budget's bucket must be asked first.
        """
        tenant_id, remembered = request.tenant_id, None
        sticky, canary = policy.sticky, policy.canary
        session = read_session(sticky.session_key, request) if sticky is not None else None
        if session is not None:
            remembered = self._sessions.recall(tenant_id, policy.policy_id, session)
        states = self._states(tenant_id)
        figures = (
            self._figures(tenant_id)
            if policy.strategy is not None or canary is not None
            else NO_FIGURES
        )
        decision = self._evaluate(
            policy,
            request,
            states=states,
            figures=figures,
            now=now,
            remembered=remembered,
            previous=previous,
        )
        if self._budgets and isinstance(decision, Decision):
            budgets = self._budgets.get(tenant_id)
            if budgets is not None and (
                refused := budgets.reserve(request, policy.policy_id, decision, passed_over)
            ):
                return self._choose_cheaper(
                    refused, request, now, previous, is_last=bool(passed_over)
                )
        if canary is not None:  # after the reservation, which may ask for another try
            shadow = evaluate_shadow(
                policy,
                request,
                states=states,
                figures=figures,
                now=now,
                remembered=remembered,
                previous=previous,
            )
            if shadow is not None:
                self._canaries.on_shadow(policy, decision, shadow)
        if isinstance(decision, Refusal):
            return decision
        if decision.reason == PROBE or (
            type(states) is StatesBehindBreakers and states.is_probing(decision.provider_id)
        ):
            self._on_decision(tenant_id, decision)
        if session is not None:
            self._keep_session(policy, tenant_id, session, remembered, decision.provider_id)
        return decision

    def _choose_cheaper(
        self,
        refused: Sequence[BudgetSlice],
        request: RouteRequest,
        now: float,
        previous: PreviousAttempt | None,
        *,
        is_last: bool,
    ) -> Decision | Refusal:
        """The choice of the policy that these budgets name for when they have no room."""
        named = find_downgrade(refused)
        policy = (
            self._policies.find(request.tenant_id, named)
            if named is not None and not is_last
            else None
        )
        if policy is None:
            return refuse_for_budget(refused)
        answer = self.choose(policy, request, now, previous, refused)
        return (
            self._downgrades.mark(answer, refused[0].budget.budget_id)
            if isinstance(answer, Decision)
            else answer
        )

    def _keep_session(
        self, policy: Policy, tenant_id: str, session: str, remembered: str | None, provider_id: str
    ) -> None:
        if remembered == provider_id:
            self._meter.on_session("hit")
            return
        self._meter.on_session("miss" if remembered is None else "moved")
        if policy.sticky is not None:
            self._sessions.remember(
                tenant_id, policy.policy_id, session, provider_id, policy.sticky.ttl_s
            )
