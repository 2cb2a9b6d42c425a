"""The decision of a request: by its policy (`PolicyDecider`), of a provider (`ProviderChooser`).

    too old ── refused
    policy  ── none: refused; a canary's arm; with extensions: they come first
    rate    ── no token: refused
    choice  ── session ── remembered? ─┐
               states of the tenant ───┴─> evaluate ─> budgets ─> decision
                                                          └─ no room: refused, or
                                                             chosen by another policy

Of a decision, its session is remembered, and a half-open breaker hears of its probe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from router.budgets.model import BudgetSlice, TenantBudgets
from router.budgets.model.reserving import Downgrades, find_downgrade, refuse_for_budget
from router.contracts.decision import (
    EXPIRED,
    POLICY_NOT_FOUND,
    RATE_LIMIT_EXCEEDED,
    Decision,
    Refusal,
    RouteRequest,
)
from router.core.lease_short import LeaseShort
from router.decide.model.ports import DecideCall, DecideRules, ProviderKnowledge, SessionMeter
from router.decide.model.recorder import Evaluator
from router.policies.model import (
    PROBE,
    Policy,
    PolicyFinder,
    PreviousAttempt,
    RateLimiter,
    Sessions,
    StatesBehindBreakers,
    evaluate_shadow,
    find_arm,
    read_session,
)
from router.policies.model.canary import CanaryMeter
from router.policies.model.measurements import NO_FIGURES

TOO_OLD = Refusal(EXPIRED, "The request waited longer than decide.max_age_ms")
NO_LONGER_AWAITED = Refusal(
    EXPIRED,
    "The request waited longer than admission.patience_ms: its answer is no longer waited for",
)
REPLY_TO = "Reply-To"


class ProviderChooser:
    """Chooses a provider where the policy is known and its extensions were called.

    `evaluate`: the engine's own, or the same recorded. `budgets`: by tenant; `policies`: those
    that a budget may name.
    """

    def __init__(
        self,
        sessions: Sessions,
        meter: SessionMeter,
        *,
        providers: ProviderKnowledge,
        evaluate: Evaluator,
        canaries: CanaryMeter,
        budgets: Mapping[str, TenantBudgets],
        policies: PolicyFinder,
    ) -> None:
        self._sessions = sessions
        self._meter = meter
        self._states = providers.states_of
        self._on_decision = providers.on_decision
        self._evaluate = evaluate
        self._figures = providers.figures_of
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


class PolicyDecider:
    """Decides a request by its policy: at once, unless the policy's extensions are called first.

    `read_age`: seconds since a stored time, by the clock of the server that stores: this machine's
    may be wrong.
    """

    def __init__(
        self,
        chooser: ProviderChooser,
        *,
        policies: PolicyFinder,
        rates: RateLimiter,
        canaries: CanaryMeter,
        rules: DecideRules,
        read_age: Callable[[float], float],
    ) -> None:
        self._choose = chooser.choose
        self._policies = policies
        self._rates = rates
        self._canaries = canaries
        max_age_ms = rules.decide.max_age_ms
        self._max_age_s = max_age_ms / 1000 if max_age_ms is not None else None
        # Of a requester that names its inbox and has nothing pushed.
        self._patience_s = rules.admission.patience_ms / 1000
        self._read_age = read_age

    def decide(self, call: DecideCall) -> Decision | Refusal | Policy:
        """The answer; or the policy, where its extensions must be called first."""
        request, message = call.request, call.message
        if self._max_age_s is not None and self._read_age(message.stored_at) > self._max_age_s:
            return TOO_OLD
        if (
            REPLY_TO in message.headers
            and not request.push_assignment
            and self._read_age(message.stored_at) > self._patience_s
        ):
            return NO_LONGER_AWAITED
        policy = self._policies.find(request.tenant_id, request.policy_id)
        if policy is None:
            return refuse_unknown_policy(request)
        if policy.canary is not None:
            policy = find_arm(policy, request)
        if not policy.pipeline.is_empty:
            return policy
        if policy.rate_limit is not None:
            limited = self.check_rate(policy, request, call.started)
            if limited is not None:
                return limited
        try:  # `choose` in place: once a message
            answer = self._choose(policy, request, call.started, call.previous)
        except LeaseShort:
            self._rates.give_back(policy, request.tenant_id, call.started)
            raise
        if policy.arm is not None:
            self.count_arm(policy, call, answer)
        return answer

    def find_policy(self, request: RouteRequest) -> Policy | None:
        """The policy, or its canary's arm, as `decide` finds it in place."""
        policy = self._policies.find(request.tenant_id, request.policy_id)
        return policy if policy is None else find_arm(policy, request)

    def choose(
        self, policy: Policy, request: RouteRequest, now: float, previous: PreviousAttempt | None
    ) -> Decision | Refusal:
        """A provider of the policy. Raises LeaseShort where a budget's bucket is asked first."""
        try:
            return self._choose(policy, request, now, previous)
        except LeaseShort:
            # It is tried again, from the rate limit on.
            self._rates.give_back(policy, request.tenant_id, now)
            raise

    def check_rate(self, policy: Policy, request: RouteRequest, now: float) -> Refusal | None:
        """Take a token of the policy's rate limit; the refusal where there is none."""
        wait_ms = self._rates.allow(policy, request.tenant_id, now)
        if wait_ms is None:
            return None
        return Refusal(RATE_LIMIT_EXCEEDED, "Rate limit exceeded", {"retry_after_ms": wait_ms})

    def count_arm(self, policy: Policy, call: DecideCall, answer: Decision | Refusal) -> None:
        """An arm of a canary gave this answer."""
        self._canaries.on_decided(policy, call.request.tenant_id, answer, is_pushed=call.is_pushed)


def refuse_unknown_policy(request: RouteRequest) -> Refusal:
    text = f"Policy not found: {request.policy_id}"
    return Refusal(POLICY_NOT_FOUND, text, {"policy_id": request.policy_id})
