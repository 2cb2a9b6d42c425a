"""The decision: policy + request + states of the providers -> Decision | Refusal. Pure, and it never raises.

    evaluate ── nothing special about the request ──> the plan, made at load: a lookup, or one hash
        ├────── the same, beside a tracker's states ──> the plan without blocked providers, with averages (`narrowed`)
        └────── limits, a status, no provider, a trace ──> selection, which looks at every provider

All ways give the same answer. Live requests, dry runs and explanations all call `evaluate`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from router.contracts.decision import Decision, Refusal
from router.contracts.request import RouteRequest
from router.core import ids
from router.policies.model.measurements import NO_FIGURES, LearnedFigures
from router.policies.model.narrowed import StatesBehindBreakers, set_averages
from router.policies.model.policy import Policy, weighted_hash
from router.policies.model.selection import Selection
from router.policies.model.sound import may_keep_session
from router.policies.model.states import (
    NO_STATES,
    AverageStates,
    PreviousAttempt,
    ProviderStates,
    TraceStep,
)
from router.policies.model.strategy import choose_by_figures

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
        known = states.plans.get(id(plan)) if now < states.until else None
        plan, averages = states.narrow(plan, now) if known is None else known[1], states.averages
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
