"""The decision: policy + request + states of the providers -> Decision | Refusal. Pure, and it
never raises. The plan decides, or a selection where that does not suffice.

    evaluate ── nothing special about the request ──> the plan, made at load: a lookup, or one hash
        ├────── the same, beside a tracker's states ──> the plan without blocked providers, with averages (`narrowed`)
        └────── limits, a status, no provider, a trace ──> selection, which looks at every provider

All ways give the same answer. Live requests, dry runs and explanations all call `evaluate`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from router.contracts.decision import DECISION_FAILED, Decision, Refusal, RouteRequest
from router.core import ids
from router.core.masking import shorten
from router.policies.model.conditions import ConditionInput
from router.policies.model.measurements import NO_FIGURES, LearnedFigures
from router.policies.model.narrowed import (
    ATTEMPTS,
    NO_STATES,
    AverageStates,
    PreviousAttempt,
    ProviderStates,
    StatesBehindBreakers,
    TraceStep,
    set_averages,
    set_figures,
)
from router.policies.model.normalise import NO_PROVIDER_AVAILABLE
from router.policies.model.policy import (
    CIRCUIT_BREAKER_FALLBACK,
    FALLBACK,
    RETRY,
    STICKY,
    DecisionPlan,
    Fallback,
    Policy,
    Provider,
    RoutingStrategy,
    list_tiers,
    weighted_hash,
)
from router.policies.model.strategy import (
    choose_by_figures,
    find_sound,
    may_keep_session,
    trace_candidates,
)

# -- The choice where the plan does not suffice: the request sets limits, there are run-time
# states, or a failure is reported.
#
#     a failure is reported  ── rules ──> retry 50 | fallback 25
#     a provider is eligible ── sticky 100 ──> weighted 50, in the highest priority tier
#     none is                ── rules ──> fallback 25 | circuit_breaker_fallback 20
#     else                   ── decision_failed (no_provider_available)
#
# A rule's target needs no weight, but like every provider it must be enabled, among those that
# the request may have, within its limits where figures are known, and blocked neither by its
# breaker nor by a rate limit; else the next rule is tried.


CIRCUIT_BREAKER_OPEN = "circuit_breaker_open"
RATE_LIMITED = "rate_limited"  # the provider limits this tenant
ALL_PROVIDERS_FAILED = "all_providers_failed"
NOT_ASKED_FOR, EXCLUDED = "not_asked_for", "excluded"  # by the request's constraints
_PASSING = frozenset({CIRCUIT_BREAKER_OPEN, RATE_LIMITED})
_LONGEST_STATUS = 128  # characters in a trace


class Selection(Struct, frozen=True):
    """One evaluation and all its inputs; the draw hashes `key`."""

    policy: Policy
    request: RouteRequest
    states: ProviderStates
    figures: Mapping[str, LearnedFigures]
    now: float
    remembered: str | None
    previous: PreviousAttempt | None
    key: str
    trace: list[TraceStep] | None

    def choose(self) -> Decision | Refusal:
        fallen = {
            provider.name: self._find_ineligibility(provider) for provider in self.policy.providers
        }
        eligible = [provider for provider in self.policy.providers if fallen[provider.name] is None]
        status = self.request.context.get("status")
        if is_failure(status) and (decision := self._apply_rules((status,), FALLBACK)):
            return decision
        if eligible:
            plan = self._plan(eligible)
            return self._keep_session(plan, eligible) or self._draw(plan)
        return self._choose_without_eligible(status, fallen)

    def _keep_session(self, plan: DecisionPlan, eligible: Sequence[Provider]) -> Decision | None:
        if self.policy.sticky is None or self.remembered is None:
            return None
        verdict = self._judge_session(plan, self.remembered, eligible)
        self._note("sticky", self.remembered, verdict)
        return self._answer(self.remembered, STICKY) if verdict == "chosen" else None

    def _judge_session(
        self, plan: DecisionPlan, remembered: str, eligible: Sequence[Provider]
    ) -> str:
        if not any(provider.name == remembered for provider in eligible):
            return "not eligible"
        if self.policy.strategy is not None and not may_keep_session(
            plan, remembered, self.figures
        ):
            return "its results fail"
        return "chosen"

    def _draw(self, plan: DecisionPlan) -> Decision:
        policy, top = self.policy, plan.top
        assert top is not None  # there is an eligible provider  # noqa: S101
        if policy.strategy is None:
            point = (
                weighted_hash(policy.version, self.request.tenant_id, self.key) if top.bounds else 0
            )
            chosen = top.decisions[bisect_right(top.bounds, point)]
        else:
            chosen = choose_by_figures(
                policy, plan, self.request, self.key, self.figures, is_kept=False
            )
            if self.trace is not None:
                self.trace.extend(self._trace_choice(policy.strategy, plan, chosen.reason))
        self._note(chosen.reason, chosen.provider_id, "chosen")
        return self._answer(chosen.provider_id, chosen.reason)

    def _trace_choice(
        self, strategy: RoutingStrategy, plan: DecisionPlan, reason: str
    ) -> Iterator[TraceStep]:
        sound = find_sound(plan, self.figures, is_kept=False)
        point = (
            weighted_hash(self.policy.version, self.request.tenant_id, self.key)
            if sound.tier.bounds
            else 0
        )
        return trace_candidates(strategy, sound, point, self.figures, reason)

    def _plan(self, eligible: Sequence[Provider]) -> DecisionPlan:
        """The policy's plan of these providers alone."""
        plan = self.policy.plan
        tiers = list_tiers(eligible, plan.decisions, plan.usual_reason)
        return replace(plan, top=tiers[0], lower=tiers[1:])

    def _choose_without_eligible(
        self, status: object, fallen: Mapping[str, str | None]
    ) -> Decision | Refusal:
        if _PASSING.intersection(fallen.values()):
            decision = self._apply_rules(
                (CIRCUIT_BREAKER_OPEN, ALL_PROVIDERS_FAILED), CIRCUIT_BREAKER_FALLBACK
            )
        else:
            decision = self._apply_rules((status,), FALLBACK) if status is not None else None
        decision = decision or self._apply_rules((NO_PROVIDER_AVAILABLE,), FALLBACK)
        if decision is not None:
            return decision
        details = {
            "reason": NO_PROVIDER_AVAILABLE,
            "providers": fallen,
            **self._find_retry_after(fallen),
        }
        return Refusal(DECISION_FAILED, "No provider is eligible and no fallback applies", details)

    def _find_retry_after(self, fallen: Mapping[str, str | None]) -> Mapping[str, int]:
        """When the first of the providers that are only blocked may be chosen; nothing where none
        is.
        """
        states = [self.states.get(name) for name, why in fallen.items() if why in _PASSING]
        ends = [
            max(state.blocked_until, state.limited_until) for state in states if state is not None
        ]
        return {"retry_after_ms": max(1, ceil((min(ends) - self.now) * 1000))} if ends else {}

    def _apply_rules(self, statuses: Sequence[object], reason: str) -> Decision | None:
        """The decision of the first rule that matches one of the statuses and whose provider may
        take the request.
        """
        all_inputs = [ConditionInput(self.request, status) for status in statuses]
        for index, rule in enumerate(self.policy.fallbacks):
            if not any(rule.applies(inputs) for inputs in all_inputs):
                self._note_rule(
                    index,
                    lambda: (
                        "does not match "
                        f"{', '.join(shorten(str(status), _LONGEST_STATUS) for status in statuses)}"
                    ),
                )
            elif (decision := self._apply_rule(rule, reason)) is not None:
                self._note(
                    "fallback", f"fallbacks[{index}]", f"{decision.reason}: {decision.provider_id}"
                )
                return decision
            else:
                self._note(
                    "fallback", f"fallbacks[{index}]", f"{rule.to}: {self._find_obstacle(rule.to)}"
                )
        return None

    def _note_rule(self, index: int, verdict: Callable[[], str]) -> None:
        """Trace a rule. `verdict` is called only when a trace is wanted: a request may hold a very
        long status.
        """
        if self.trace is not None:
            self._note("fallback", f"fallbacks[{index}]", verdict())

    def _apply_rule(self, rule: Fallback, reason: str) -> Decision | None:
        previous = self.previous
        if (
            previous is not None
            and previous.attempts <= rule.retry
            and self._may_retry(previous.provider_id)
        ):
            decision = self._answer(previous.provider_id, RETRY)
            return replace(
                decision, metadata={**decision.metadata, ATTEMPTS: str(previous.attempts + 1)}
            )
        return self._answer(rule.to, reason) if self._find_obstacle(rule.to) is None else None

    def _may_retry(self, name: str) -> bool:
        return (name, RETRY) in self.policy.plan.decisions and self._find_obstacle(name) is None

    def _find_ineligibility(self, provider: Provider) -> str | None:
        why = (
            "zero_weight"
            if provider.enabled and provider.weight == 0
            else self._find_obstacle(provider.name)
        )
        self._note("eligible", provider.name, why or "yes")
        return why

    def _find_obstacle(self, name: str) -> str | None:
        """Why the provider may not take this request; what passes by itself is named only when
        there is no other reason.
        """
        provider, state = self.policy.plan.providers.get(name), self.states.get(name)
        if provider is not None and not provider.enabled:
            return "disabled"
        limits = self.request.constraints
        if limits and (broken := self._find_broken_constraint(provider, name, limits)):
            return broken
        if state is None or self.now >= max(state.blocked_until, state.limited_until):
            return None
        return CIRCUIT_BREAKER_OPEN if self.now < state.blocked_until else RATE_LIMITED

    def _find_broken_constraint(
        self, provider: Provider | None, name: str, limits: Mapping[str, object]
    ) -> str | None:
        if (narrowed := _find_narrowing(name, limits)) is not None:
            return narrowed
        latency_ms, cost = self._averages(name)
        if latency_ms is None and provider is not None:
            latency_ms = provider.expected_latency_ms
        if cost is None and provider is not None:
            cost = provider.expected_cost
        if _is_above(latency_ms, limits.get("max_latency_ms")):
            return "max_latency_ms"
        return "max_cost" if _is_above(cost, limits.get("max_cost")) else None

    def _averages(self, name: str) -> tuple[float | None, float | None]:
        state = self.states.get(name)
        return (None, None) if state is None else (state.latency_ms, state.cost)

    def _answer(self, name: str, reason: str) -> Decision:
        """The decision made at load, with the moving averages in place of the policy's figures
        where there are any.
        """
        return set_figures(self.policy.plan.decisions[name, reason], self.states.get(name))

    def _note(self, stage: str, subject: str, verdict: str) -> None:
        if self.trace is not None:
            self.trace.append(TraceStep(stage, subject, verdict))


def is_failure(status: object) -> bool:
    """True for a `context.status` that says that something failed: a text other than ok or success,
    a number from 400.
    """
    if isinstance(status, str):
        if len(status) == 3 and status.isascii() and status.isdigit():
            return status >= "400"
        return status not in ("", "ok", "success")
    return isinstance(status, int | float) and not isinstance(status, bool) and status >= 400


def _find_narrowing(name: str, limits: Mapping[str, object]) -> str | None:
    """Why the request itself rules a provider out. The lists are short: a reader has checked
    them.
    """
    asked, excluded = limits.get("providers"), limits.get("excluded_providers")
    if isinstance(asked, list) and name not in asked:
        return NOT_ASKED_FOR
    return EXCLUDED if isinstance(excluded, list) and name in excluded else None


def _is_above(figure: float | None, limit: object) -> bool:
    if figure is None or isinstance(limit, bool) or not isinstance(limit, int | float):
        return False
    return figure > limit


# -- The decision: policy + request + states of the providers -> Decision | Refusal.


LONGEST_SESSION = 256  # a longer one is remembered by its digest


def evaluate(
    policy: Policy,
    request: RouteRequest,
    *,
    states: ProviderStates = NO_STATES,
    figures: Mapping[str, LearnedFigures] = NO_FIGURES,
    now: float,
    remembered: str | None = None,
    previous: PreviousAttempt | None = None,
    trace: list[TraceStep] | None = None,
) -> Decision | Refusal:
    """Choose a provider (docs/reference/policies.md#decision).

    `now` is on the clock of `states`, seconds; `figures` are what a strategy looks at, by provider;
    `remembered` is the session's provider, `previous` the assignment that this request follows up.
    A Decision with the policy's own figures is the same object every time.
    """
    if policy.refusal is not None:
        return _trace_refusal(policy.refusal, trace)
    plan, averages = policy.plan, states
    if type(states) is StatesBehindBreakers:
        # The lookup of `narrow`, and below of `set_averages`, stands here: this is called once a
        # request.
        kept = states.plans.get(id(plan)) if now < states.until else None
        plan, averages = states.narrow(plan, now) if kept is None else kept[1], states.averages
    top, has_averages = plan.top, type(averages) is AverageStates
    is_special = request.constraints or "status" in request.context or trace is not None
    if is_special or top is None or not (has_averages or averages is NO_STATES):
        key = _draw_key(policy, request)
        return Selection(
            policy, request, states, figures, now, remembered, previous, key, trace
        ).choose()
    decision = plan.sticky.get(remembered) if remembered is not None else None
    if policy.strategy is not None:
        if decision is None or not may_keep_session(plan, decision.provider_id, figures):
            decision = choose_by_figures(policy, plan, request, _draw_key(policy, request), figures)
    elif decision is None:
        bounds = top.bounds
        point = (
            weighted_hash(policy.version, request.tenant_id, _draw_key(policy, request))
            if bounds
            else 0
        )
        decision = top.decisions[bisect_right(bounds, point)]
    if not isinstance(averages, AverageStates):
        return decision
    learned = averages.learned.get(id(decision))
    return set_averages(decision, averages) if learned is None else learned[1]


def read_session(session_key: str, request: RouteRequest) -> str | None:
    """The session that the request belongs to: a text or an integer under this key of its context,
    a long one by its digest. Else None.
    """
    value = request.context.get(session_key)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value) if value.bit_length() <= 128 else None
    if not isinstance(value, str) or not value:
        return None
    return (
        value
        if len(value) <= LONGEST_SESSION
        else ids.sha256_hex(value.encode("utf-8", "surrogatepass"))
    )


def _draw_key(policy: Policy, request: RouteRequest) -> str:
    # Instances that share no memory still agree on a session's provider: the session is drawn, not
    # the request.
    sticky = policy.sticky
    return (
        request.request_key
        if sticky is None
        else read_session(sticky.session_key, request) or request.request_key
    )


def _trace_refusal(refusal: Refusal, trace: list[TraceStep] | None) -> Refusal:
    if trace is not None:
        trace.append(TraceStep("pipeline", "pipeline", str((refusal.details or {}).get("reason"))))
    return refusal
